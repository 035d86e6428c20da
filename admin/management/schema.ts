/** Suppliers with their seats and data centers. The same schemas validate, type and document them (SERVICE 2). */
import * as z from 'zod'
import type { DataCenter, QpsEntry, Seat } from '../store/tables.ts'

/** Display text: no control characters, at most 255 characters. */
const name = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'no control characters')
/** -0 becomes 0, so that it does not count as a change. */
const qps = z
  .int()
  .min(0)
  .max(1_000_000_000)
  .overwrite((value) => value + 0)
  .nullable()

const qpsEntry = z.strictObject({ location: name, value: qps }) satisfies z.ZodType<QpsEntry>

const unique = (values: readonly string[]) => new Set(values).size === values.length

const seatSchema = z.strictObject({
  name,
  name_external: name,
  is_active: z.boolean(),
  qps: z
    .array(qpsEntry)
    .max(1000)
    .refine((rows) => unique(rows.map(({ location }) => location)), 'each location once'),
}) satisfies z.ZodType<Seat>
const dataCenterSchema = z.strictObject({
  location: name,
  client_qps: qps,
  is_active: z.boolean(),
}) satisfies z.ZodType<DataCenter>

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

/**
 * POST. Omitted fields of an entry that exists keep their values. A new seat is active, has its name as `name_external` and
 * no `qps`; a new data center is active and unlimited.
 */
export const createSchema = z
  .strictObject({
    ...names,
    dsp_seats: seats(seatSchema.partial().required({ name: true })).default([]),
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
