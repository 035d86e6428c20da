import * as z from 'zod'
import { redisAddress } from '../opd/base/redis-address.ts'
import { certificatePair, clientAuthorities, isTlsPair } from '../opd/base/tls-pair.ts'
import { duration, hostPort } from '../opd/base/units.ts'
import { maxPassword, minPassword } from './auth/passwords.ts'
import { isZone } from './reports/zone.ts'

const address = hostPort('127.0.0.1:8081')

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
        .default('main')
        .describe("Name of the realm, part of the token endpoint's path."),
      adminPassword: z
        .string()
        .min(minPassword)
        .max(maxPassword)
        .optional()
        .describe('Password of the first user. Without it one is generated and printed once.'),
    })
    .prefault({})
    .describe('The token endpoint of bidweir itself.'),
})

const external = z.strictObject({
  issuer: httpUrl.describe(
    'URL of an OpenID Connect issuer such as Keycloak. It takes the place of the embedded token endpoint.',
  ),
  audience: z.string().min(1).default('bidweir').describe('Audience that access tokens must name.'),
  role: z
    .string()
    .min(1)
    .default('api')
    .describe("Role of the issuer that counts as bidweir's role api."),
  clientId: z
    .string()
    .min(1)
    .max(255)
    .default('public-client')
    .describe('Public client of the issuer by which the console logs users in.'),
  accountClaim: z
    .string()
    .min(1)
    .default('account')
    .describe("Claim that names the account of the token's user."),
})

/** The agent listener (CONTRACT 15). */
export const agentSchema = z.strictObject({
  listen: address
    .optional()
    .describe(
      'Address of the agent listener, host:port: gRPC, and the probes /heartbeat and /healthcheck. Default: all addresses, at the port of the environment variable SERVER_PORT, or else 50051.',
    ),
  tls: z
    .strictObject({
      ...certificatePair,
      clientCa: clientAuthorities(
        'Authorities of client certificates, PEM. With them every client needs one.',
      ),
    })
    .refine(isTlsPair, { error: 'the private key of agent.tls.cert, both in PEM', path: ['key'] })
    .optional()
    .describe('TLS of the agent listener. Without it the listener speaks plain HTTP/2.'),
  originators: z
    .record(z.string(), z.string())
    .default({})
    .describe(
      'Supplier of each originator: id of the originator to id of the supplier. An id that is a supplier needs no entry; the empty id is that of calls without an originator.',
    ),
  timeout: duration('4ms')
    .refine((ms) => ms >= 1, 'a duration of at least 1ms')
    .describe(
      'Time within which a call is answered. A call that cannot be priced in time gets no mutation.',
    ),
  maxConnectionAge: duration('10m').describe('Age at which a connection ends with GOAWAY.'),
})
export type AgentConfig = z.infer<typeof agentSchema> & { listen: string }

const webhook = {
  url: httpUrl.describe('Receiver, called by POST with JSON.'),
  secret: z
    .string()
    .min(16)
    .describe('Secret of the signature (HMAC-SHA256), 16 characters or more.'),
}

export const adminSchema = z.strictObject({
  listen: address
    .default('127.0.0.1:8081')
    .describe('Address of the admin listener, host:port. Port 0 lets the system choose a port.'),
  auth: z
    .union([external, embedded])
    .default({ embedded: { realm: 'main' } })
    .describe('Source of access tokens: the embedded token endpoint, or an external issuer.'),
  publicUrl: httpUrl
    .refine((text) => !/[?#]/.test(text), 'an http or https URL without query and fragment')
    .nullable()
    .default(null)
    .describe(
      'URL at which clients reach the admin listener. null: taken from Host and X-Forwarded-* of a trusted proxy; for direct callers the address of the listener.',
    ),
  impressions: z
    .strictObject({
      auth: z
        .enum(['bearer', 'context', 'none'])
        .default('bearer')
        .describe(
          'Credential of a win notice: bearer (an access token), context (a valid svc_opd), or none.',
        ),
    })
    .prefault({})
    .describe('Win notices.'),
  alerts: z
    .strictObject(webhook)
    .nullable()
    .default(null)
    .describe('Webhook that gets the begin and the end of each alert. null: none.'),
  dailyReport: z
    .strictObject({
      ...webhook,
      at: z
        .string()
        .regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'a time such as 06:00')
        .default('06:00')
        .describe('Time at which the report of the day before is sent, in tz.'),
      tz: z
        .string()
        .refine(isZone, 'an IANA time zone such as America/New_York')
        .default('UTC')
        .describe('Time zone of the day.'),
    })
    .nullable()
    .default(null)
    .describe('Webhook that gets the report of each day, of all suppliers. null: none.'),
})

export const noticesSchema = z.strictObject({
  listen: address
    .nullable()
    .default(null)
    .describe(
      'Address of a listener that serves win notices (/opd/imp) and /healthz alone, host:port, so that notices can be public and the rest private. The admin listener serves them as well. null: none.',
    ),
})

export const storeSchema = z.strictObject({
  database: z
    .string()
    .regex(/^(sqlite:.+|postgres(ql)?:\/\/.+)$/, 'sqlite:PATH or postgres://…')
    .describe('Database: sqlite:PATH or postgres://… . Default: sqlite:<stateDir>/bidweir.db.')
    .optional(),
  redis: z
    .string()
    .refine(
      (text) => redisAddress(text) !== null,
      'redis://…, rediss://…, redis+sentinel://HOST:PORT,…/MASTER or redis+cluster://HOST:PORT,…',
    )
    .nullable()
    .default(null)
    .describe(
      'URL of Redis or Valkey: redis://…, redis+sentinel://HOST:PORT,…/MASTER or redis+cluster://HOST:PORT,…; rediss with TLS. Nodes share bid logs, model updates and allotments through it. null: none.',
    ),
  retentionDays: z
    .int()
    .min(3)
    .max(3650)
    .default(400)
    .describe(
      'Days that rows of the ledger are kept. Their sums by hour and the audit trail stay.',
    ),
})

type AdminConfig = z.infer<typeof adminSchema>
export type AuthConfig = AdminConfig['auth']
