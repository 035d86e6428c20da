import * as z from 'zod'
import { maxPassword, minPassword } from './auth/passwords.ts'

const address = z
  .string()
  .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'host:port, such as 127.0.0.1:8081')
  .refine((text) => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65535, 'a port up to 65535')

const httpUrl = z
  .string()
  .refine(
    (text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
    'an http or https URL',
  )

const embedded = z.strictObject({
  embedded: z
    .strictObject({
      realm: z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,64}$/, 'letters, digits, _ and -, up to 64')
        .default('main'),
      /** The password of the first admin; generated and printed once if absent. */
      adminPassword: z.string().min(minPassword).max(maxPassword).optional(),
    })
    .prefault({}),
})

const external = z.strictObject({
  issuer: httpUrl,
  audience: z.string().min(1).default('bidweir'),
  role: z.string().min(1).default('api'),
  /** The claim that contains the account of the caller. */
  accountClaim: z.string().min(1).default('account'),
})

export const adminSchema = z.strictObject({
  listen: address.default('127.0.0.1:8081'),
  auth: z.union([external, embedded]).default({ embedded: { realm: 'main' } }),
  /** URL by which clients reach this listener; null: taken from each request. */
  publicUrl: httpUrl
    .refine((text) => !/[?#]/.test(text), 'an http or https URL without query and fragment')
    .nullable()
    .default(null),
  impressions: z
    .strictObject({ auth: z.enum(['bearer', 'context', 'none']).default('bearer') })
    .prefault({}),
})

export const storeSchema = z.strictObject({
  database: z
    .string()
    .regex(/^(sqlite:.+|postgres(ql)?:\/\/.+)$/, 'sqlite:PATH or postgres://…')
    .describe('sqlite:<stateDir>/bidweir.db unless given')
    .optional(),
  redis: z
    .string()
    .regex(/^rediss?:\/\/.+$/, 'redis://… or rediss://…')
    .nullable()
    .default(null),
  /** Days that ledger rows are kept. Hourly sums and the audit trail are kept longer. */
  retentionDays: z.int().min(3).max(3650).default(400),
})

export type AdminConfig = z.infer<typeof adminSchema>
export type AuthConfig = AdminConfig['auth']
