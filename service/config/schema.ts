/** The schema of the configuration file, composed of the schemas of each layer. */
import * as z from 'zod'
import {
  type AgentConfig,
  adminSchema,
  agentSchema,
  noticesSchema,
  storeSchema,
} from '../../admin/config.ts'
import { is32Bytes } from '../../opd/base/secret.ts'
import { duration } from '../../opd/base/units.ts'
import { clearingSchema, opdSchema } from '../../opd/config.ts'
import { decisionLogSchema } from '../../opd/state/decision-log.ts'
import { proxySchema, routeSchema } from '../../proxy/config.ts'
import { eventsSchema } from '../events/config.ts'
import { logLevels } from '../log/levels.ts'
import { tracingSchema } from '../tracing/config.ts'

const base64url32 = z
  .string()
  .refine(is32Bytes, '32 bytes in base64url, as `bidweir key new` prints them')

export const contextTtl = duration('48h')

const keySchema = z.strictObject({
  id: z
    .int()
    .min(0)
    .max(255)
    .describe('Number of the key, 0 to 255, written in front of the context.'),
  secret: base64url32.describe('32 bytes in base64url, as `bidweir key new` prints them.'),
})

const currencyCode = z.string().regex(/^[A-Z]{3}$/, 'an ISO 4217 code such as USD')

const rateTable = z.strictObject({
  base: currencyCode.describe('Currency that the rates are relative to; must be currency.base.'),
  rates: z
    .record(currencyCode, z.number().positive())
    .describe('Units of each currency for one unit of the base currency.'),
  asOf: z
    .string()
    .refine((text) => !Number.isNaN(Date.parse(text)), 'a date')
    .optional()
    .describe(
      'Time at which the rates were made, ISO 8601. A warning is logged when they are older than a day.',
    ),
})

/** The value of `{file: rates.json}` is the text of the file. */
const ratesSchema = z.preprocess((value, context) => {
  if (typeof value !== 'string') return value
  try {
    return JSON.parse(value)
  } catch (error) {
    context.addIssue({ code: 'custom', message: `JSON (${(error as Error).message})`, input: '' })
    return z.NEVER
  }
}, rateTable)

/** Text that people read. */
const displayName = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'text without control characters')

export const supplierSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, 'a-z, 0-9, _ and -, up to 63, the first a letter or digit')
    .describe(
      'Identifier of the supplier, part of the path /bid/<id>: a-z, 0-9, _ and -, up to 63.',
    ),
  name: displayName.optional().describe('Name for operators. Default: the id.'),
  name_external: displayName.optional().describe('Name for people outside. Default: name.'),
  account: displayName
    .optional()
    .describe(
      'Account whose users may see and change the supplier. Without it only users of account * may.',
    ),
  ...routeSchema.shape,
  opd: opdSchema.optional().describe('Optimized price discovery. Without the block it is off.'),
  clearing: clearingSchema.prefault({}).describe("Prices in the supplier's notices."),
  notices: z
    .enum(['win', 'billing', 'both'])
    .default('win')
    .describe(
      'Events that the platform reports. both: the model learns from win, money is counted at billing.',
    ),
})

/** Suppliers of all files together. */
export const maxSuppliers = 10_000
const suppliers = z.array(supplierSchema).max(maxSuppliers)

/** A file of a folder of `suppliersFrom`. */
export const supplierFileSchema = z.strictObject({ suppliers })

const topNames = z.int().min(0).max(10_000).default(200)

export const configSchema = z.strictObject({
  location: z
    .string()
    .min(1)
    .max(128)
    .default('local')
    .describe('Data center that the node runs in.'),
  stateDir: z
    .string()
    .min(1)
    .describe(
      'Folder of keys, models and the SQLite file. Default: the folder of the SQLite file if one is named, else data. Relative paths are relative to the configuration file.',
    )
    .optional(),
  proxy: proxySchema.prefault({}).describe('The listener for bid traffic, and its limits.'),
  admin: adminSchema
    .prefault({})
    .describe('The admin listener: management API, win notices, console and metrics.'),
  notices: noticesSchema.prefault({}).describe('A listener of win notices alone.'),
  agent: agentSchema
    .nullable()
    .default(null)
    .describe('The agent listener: gRPC calls of exchanges that ask for prices. null: none.'),
  store: storeSchema.prefault({}).describe('Database and Redis.'),
  opd: z
    .strictObject({
      keys: z
        .array(keySchema)
        .min(1)
        .optional()
        .describe(
          'Keys of contexts: the first encodes, all decode. Without them a key is generated and kept in stateDir. Required with PostgreSQL or Redis.',
        ),
      attributionWindow: duration('30m').describe(
        'Time after which a bid without a notice counts as lost.',
      ),
      contextTtl: contextTtl.describe('Time within which a win is attributed to its decision.'),
      bidLog: z
        .strictObject({
          when: z
            .enum(['always', 'bareOnly', 'off'])
            .default('always')
            .describe(
              'Whether bids are written to Redis, so that a notice without a context is attributed at any node. bareOnly: only while admin.impressions.auth admits such notices. off: never.',
            ),
          ttl: duration('30m')
            .refine((ms) => ms >= 1, 'a duration of at least 1ms')
            .describe('Time that a bid is kept in Redis.'),
        })
        .prefault({})
        .describe('The bid log that nodes share in Redis.'),
      decisionLog: decisionLogSchema
        .nullable()
        .default(null)
        .describe(
          'Decision log: one line for each decision and each win, the input of `bidweir replay`. null: none.',
        ),
    })
    .prefault({})
    .describe('What all suppliers share of optimized price discovery.'),
  node: z
    .strictObject({
      role: z
        .enum(['all', 'serve', 'train'])
        .default('all')
        .describe(
          'all: prices bids, and trains the shared models if no other node does. serve: prices, and leaves the training to other nodes. train: trains and shares the models, without bid traffic. serve and train need store.redis; serve may have models.from instead.',
        ),
      zone: z
        .string()
        .min(1)
        .max(128)
        .optional()
        .describe(
          'Zone that the node runs in. Endpoints with the same `zone` are preferred. Without it all zones are equal.',
        ),
    })
    .prefault({})
    .describe('The part of this node among several.'),
  models: z
    .strictObject({
      from: z
        .string()
        .min(1)
        .nullable()
        .default(null)
        .describe(
          'File of models that `bidweir model export` wrote, for a node without a network: it prices by them, does not train, and needs no database. The file is watched. Needs node.role: serve. null: the node trains, or shares the models of others.',
        ),
      key: base64url32
        .optional()
        .describe(
          'Secret that signs and verifies exported models: 32 bytes in base64url. Default: the first of opd.keys signs, and any of them verifies.',
        ),
    })
    .prefault({})
    .describe('Models that come from a file.'),
  events: eventsSchema
    .nullable()
    .default(null)
    .describe('Event stream: decisions, wins and losses, as JSON. null: none.'),
  metrics: z
    .strictObject({
      publishers: topNames.describe(
        'Publishers of a supplier with series of their own in the metrics, the busiest; the rest is `other`. 0: no series by publisher.',
      ),
      domains: topNames.describe(
        'Domains of a supplier with series of their own in the metrics, the busiest; the rest is `other`. 0: no series by domain.',
      ),
    })
    .prefault({})
    .describe('Labels of the metrics.'),
  tracing: tracingSchema
    .nullable()
    .default(null)
    .describe('Spans for an OpenTelemetry collector. null: none.'),
  drain: z
    .strictObject({
      grace: duration('15s').describe(
        'Time between SIGTERM and the closing of the listener for bid traffic. SIGINT skips it.',
      ),
      timeout: duration('45s').describe('Time limit of the whole drain.'),
    })
    .prefault({})
    .describe('The end of the process.'),
  suppliers: suppliers.default([]).describe('The suppliers.'),
  suppliersFrom: z
    .array(z.string().min(1))
    .max(64)
    .default([])
    .describe(
      'Folders whose files (.yaml, .yml, .json) each contain a list `suppliers`, such as mounted ConfigMaps. A change of a file is a reload of its suppliers; a file with a fault keeps those that it had.',
    ),
  currency: z
    .strictObject({
      base: currencyCode.default('USD').describe('Currency of reports, ISO 4217.'),
      rates: ratesSchema.optional().describe('Exchange rates; also as {file: rates.json}.'),
    })
    .prefault({})
    .describe('Currencies.'),
  log: z
    .strictObject({
      level: z.enum(logLevels).default('info').describe('Lowest level that is logged.'),
    })
    .prefault({})
    .describe('The log, JSON lines on stderr.'),
})

/** As the schema returns it. `resolvePaths` fills in paths and makes them absolute. */
export type ParsedConfig = z.infer<typeof configSchema>
export interface Config extends ParsedConfig {
  /** Absolute, as is every path below. */
  stateDir: string
  store: ParsedConfig['store'] & { database: string }
  agent: AgentConfig | null
}
export type ConfigInput = z.input<typeof configSchema>
export type SupplierConfig = Config['suppliers'][number]

/** The JSON Schema that is shipped as bidweir.schema.json: any value may also be `${ENV}` or `{file: path}`. */
export function jsonSchema(): object {
  return {
    title: 'bidweir.yaml',
    ...z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }),
  }
}
