/** The resources of the management API. The same schemas validate, type and document them (SERVICE 2). */
import * as z from 'zod'

/** Display text: no control characters, at most 255 characters. */
const name = z
  .string()
  .min(1)
  .max(255)
  .refine((text) => !/\p{Cc}|\p{Cs}/u.test(text), 'no control characters')
/** -0 becomes 0, so that it does not count as a change. */
const qps = z
  .int()
  .min(0)
  .max(1_000_000_000)
  .overwrite((value) => value + 0)
  .nullable()

const qpsEntry = z.strictObject({ location: name, value: qps })
export type QpsEntry = z.infer<typeof qpsEntry>

const unique = (values: readonly string[]) => new Set(values).size === values.length

const seatSchema = z.strictObject({
  name,
  name_external: name,
  is_active: z.boolean(),
  qps: z
    .array(qpsEntry)
    .max(1000)
    .refine((rows) => unique(rows.map(({ location }) => location)), 'each location once'),
})
const dataCenterSchema = z.strictObject({
  location: name,
  client_qps: qps,
  is_active: z.boolean(),
})

export type Seat = z.infer<typeof seatSchema>
export type DataCenter = z.infer<typeof dataCenterSchema>

const seats = <S extends z.ZodType<{ name: string }>>(seat: S) =>
  z
    .array(seat)
    .max(1000)
    .refine((rows) => unique(rows.map((row) => row.name)), 'each seat once')
const centers = <S extends z.ZodType<{ location: string }>>(center: S) =>
  z
    .array(center)
    .max(1000)
    .refine((rows) => unique(rows.map((row) => row.location)), 'each location once')

export const supplierSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    name_external: z.string(),
    dsp_seats: z.array(seatSchema),
    datacenters: z.array(dataCenterSchema),
  })
  .meta({ id: 'Supplier' })
export type SupplierResource = z.infer<typeof supplierSchema>

/** They cannot be changed, but may be sent. */
const names = z
  .object({ id: z.string(), name: z.string(), name_external: z.string() })
  .partial().shape

/** POST: complete seats. Omitted fields of a data center keep their values; a new one is active and unlimited. */
export const createSchema = z
  .strictObject({
    ...names,
    dsp_seats: seats(
      z.strictObject({
        ...seatSchema.shape,
        is_active: z.boolean().default(true),
        name_external: name.optional(),
        qps: seatSchema.shape.qps.default([]),
      }),
    ).default([]),
    datacenters: centers(dataCenterSchema.partial().required({ location: true })).default([]),
  })
  .meta({ id: 'SupplierCreate' })
export type CreateBody = z.infer<typeof createSchema>

/** PUT: entries are matched by `name` and `location`. Omitted fields keep their values. */
export const updateSchema = z
  .strictObject({
    ...names,
    dsp_seats: seats(seatSchema.partial().required({ name: true })).default([]),
    datacenters: centers(dataCenterSchema.partial().required({ location: true })).default([]),
  })
  .meta({ id: 'SupplierUpdate' })
export type UpdateBody = z.infer<typeof updateSchema>

export const holdSchema = z.strictObject({ hold: z.boolean() }).meta({ id: 'Hold' })

/** The state of one hold; `*` is all integrations. */
export const holdStateSchema = z
  .strictObject({ supplier: z.string(), hold: z.boolean() })
  .meta({ id: 'HoldState' })

export const emptySchema = z.strictObject({})
export const rollbackSchema = z
  .strictObject({
    /** Default: the snapshot before the newest, of each mode. */
    id: z.string().max(32).optional(),
  })
  .meta({ id: 'ModelsRollback' })
export const resetSchema = z
  .strictObject({ supplier: z.string().min(1).max(63) })
  .meta({ id: 'ModelsReset' })

export const modelsSchema = z
  .strictObject({
    frozen: z.boolean(),
    models: z.array(
      z.strictObject({
        mode: z.enum(['revenue', 'margin']),
        epoch: z.int(),
        rolled_back_at: z.iso.datetime().nullable(),
      }),
    ),
    resets: z.record(z.string(), z.int()),
    snapshots: z.array(
      z.strictObject({
        id: z.string(),
        mode: z.enum(['revenue', 'margin']),
        at: z.iso.datetime(),
        bytes: z.int(),
        newest: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'Models' })
export type ModelsResource = z.infer<typeof modelsSchema>
/** A win that was removed from all sums. */
export const voidedSchema = z
  .strictObject({
    decision: z.string(),
    status: z.literal('voided'),
    supplier: z.string(),
    events: z.array(z.enum(['win', 'billing'])),
  })
  .meta({ id: 'VoidedWin' })

export const auditQuerySchema = z.strictObject({
  limit: z
    .int('is a whole number, 1 to 1000')
    .min(1)
    .max(1000)
    .default(100)
    .describe('Entries of one page'),
  before: z
    .int('is a whole number')
    .min(0)
    .optional()
    .describe('Only entries with a smaller `id`, such as the last of the previous page'),
  ssp: z.string().optional().describe('Only entries of this supplier'),
})

/** `before` and `after` of `user_` actions are the user. */
export const auditEntrySchema = z
  .strictObject({
    id: z.int(),
    at: z.iso.datetime(),
    who: z.string(),
    account: z.string(),
    supplier: z.string(),
    action: z.enum([
      'create',
      'update',
      'hold',
      'void',
      'freeze',
      'unfreeze',
      'rollback',
      'reset',
      'user_add',
      'user_passwd',
      'user_disable',
      'user_enable',
      'user_remove',
    ]),
    request_id: z.string(),
    before: z.unknown(),
    after: z.unknown(),
  })
  .meta({ id: 'AuditEntry' })
export type AuditResource = z.infer<typeof auditEntrySchema>
