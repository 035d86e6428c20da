/** What `GET /api/svc/live/` answers. The same schema types and documents it. Money is in units of the base currency. */
import * as z from 'zod'
import { modes } from '../../opd/shared/arms.ts'
import { roles } from '../http/roles.ts'
import { levels } from './health.ts'

const count = z.number().min(0)
const counts = z.record(z.string(), count)
const level = z.enum(levels)

const interval = {
  at: z.number(),
  lower: z.number(),
  upper: z.number(),
}
const intervalSchema = z.strictObject(interval)

const keptSchema = z
  .strictObject({
    ...interval,
    floor: z.number(),
    known: z.boolean().describe('Whether the interval is narrow enough to say anything'),
    level: level.describe('`none` if it is not known'),
  })
  .meta({ id: 'Kept' })

const modeSchema = z
  .strictObject({
    mode: z.enum(modes),
    bids: count.describe(
      'Since the nodes started, like all but `kept`, `keptSpend`, `missing`, `uplift`',
    ),
    wins: count,
    guards: counts.describe('Nodes by the guard of their latest decision'),
    alarms: counts.describe('How often each guard began to act'),
    factors: z.array(
      z.strictObject({
        upTo: z.number().nullable().describe('null: above 1'),
        bids: count,
      }),
    ),
    margin: z.number(),
    revenue: z.number(),
    kept: keptSchema
      .nullable()
      .describe('Win rate of optimized bids divided by that of the holdout, of the last 7 days'),
    keptSpend: keptSchema.nullable().describe('The same of spend'),
    missing: z
      .strictObject({ wins: z.number(), spend: z.number() })
      .nullable()
      .describe(
        'What the optimized bids would have at the rates of the holdout, minus what they have',
      ),
    uplift: intervalSchema
      .nullable()
      .describe('Margin of optimized bids minus that of the holdout, for 1,000 bids'),
  })
  .meta({ id: 'LiveMode' })

const rule = z.string().describe('The same name for as long as the same is wrong')
const reasonSchema = z.strictObject({
  rule,
  level,
  text: z.string(),
  fix: z.string().nullable().describe('What to do; null: the text says it'),
})

const variantSchema = z.strictObject({
  requests: count.describe('Sent since the nodes started'),
  failed: count.describe('Those of them without a whole response in time'),
  bids: count.describe('In responses of at most 64 KiB without a content encoding'),
  price: z.number().nullable().describe('Mean price of the bids, CPM, as the supplier sent them'),
  p50: z.number().nullable().describe('Seconds that the endpoints took, median'),
  p99: z.number().nullable(),
})

const integrationSchema = z
  .strictObject({
    ssp: z.string(),
    name: z.string(),
    account: z.string().nullable(),
    opd: z
      .strictObject({
        state: z.enum(['on', 'shadow', 'off', 'invalid']),
        mode: z.enum(modes),
        minWinRate: z.number(),
        minSpend: z.number(),
      })
      .nullable()
      .describe('null: there is no opd block'),
    modes: z.array(modeSchema).describe('The configured mode first'),
    held: z.enum(['all', 'own', 'no']).describe('`all`: because all integrations are held'),
    health: z.strictObject({
      level,
      reasons: z.array(reasonSchema).describe('The worst first'),
    }),
    requests: counts.describe('Of the last minutes, by outcome'),
    total: count.describe('Requests of the last minutes'),
    sent: count.describe('Those of them that were sent to the supplier'),
    failed: count.describe('Those of `sent` without a whole response in time'),
    refused: count.describe('Those of `total` that bidweir refused'),
    rate: z.number().describe('Requests a second'),
    p50: z.number().nullable().describe('Seconds that the supplier took, median'),
    p99: z.number().nullable(),
    left: counts.describe('Bids and bid responses that were left unchanged, by reason'),
    notices: counts.describe('Notices by status'),
    endpoints: z.array(
      z.strictObject({
        url: z.string(),
        state: z.enum(['up', 'failing', 'ejected', 'unhealthy', 'out']),
        failures: count.describe('Consecutive failures up to the last request'),
        inFlight: count.optional(),
        canary: z.literal(true).optional().describe('It is one of the canary'),
        reason: z.string().optional().describe('Why it is not up'),
        since: count.optional().describe('Milliseconds since the epoch at which the state began'),
        nextTry: count.optional().describe('When a request is sent there again'),
        lastError: z.strictObject({ text: z.string(), at: count }).optional(),
      }),
    ),
    variants: z
      .strictObject({ main: variantSchema, canary: variantSchema })
      .optional()
      .describe('Absent: the supplier had no canary since the nodes started'),
    qps: z.number().nullable().describe('The allotment of these nodes; null: no limit'),
  })
  .meta({ id: 'LiveIntegration' })

const nodeSchema = z
  .strictObject({
    node: z.string(),
    location: z.string(),
    version: z.string(),
    window: z.number().describe('Length of the last minutes in seconds; shorter after a start'),
    problems: z.array(z.strictObject({ rule, level: z.enum(['bad', 'warn']), text: z.string() })),
    started: z.iso.datetime(),
    age: z.number().describe('Seconds since its figures were published'),
  })
  .meta({ id: 'LiveNode' })

const head = {
  at: z.number().describe('Milliseconds since the epoch'),
  scope: z.enum(['all nodes', 'one node']),
  node: z.string().describe('The node that answered'),
  nodes: z.array(nodeSchema),
  currency: z.string().describe('Currency of all amounts, in units'),
  caller: z.strictObject({
    name: z.string(),
    account: z.string(),
    role: z.enum(roles).nullable(),
  }),
  heldAll: z.boolean(),
  unplaced: counts.describe('Notices without an integration, by status; only for account `*`'),
}

export const liveSchema = z
  .strictObject({
    ...head,
    integrations: z.array(integrationSchema),
  })
  .meta({ id: 'Live' })

const listedSchema = integrationSchema
  .pick({
    ...{ ssp: true, name: true, account: true, opd: true, held: true, health: true },
    ...{ requests: true, total: true, sent: true, failed: true, refused: true },
    ...{ rate: true, p50: true, p99: true },
  })
  .extend({
    modes: z
      .array(modeSchema.pick({ mode: true, kept: true, keptSpend: true }))
      .describe('The configured mode; none if nothing was decided'),
  })
  .meta({ id: 'ListedIntegration' })

export const listSchema = z
  .strictObject({
    ...head,
    tag: z.string().describe('To be sent as `since` of the next call'),
    whole: z.boolean().describe('Whether all integrations are sent, not only those that changed'),
    integrations: z.array(listedSchema),
  })
  .meta({ id: 'LiveList' })

export type ListedIntegration = z.infer<typeof listedSchema>
export type LiveListAnswer = z.infer<typeof listSchema>
export type LiveSnapshot = z.infer<typeof liveSchema>
export type LiveIntegration = z.infer<typeof integrationSchema>
export type LiveMode = z.infer<typeof modeSchema>
export type LiveNode = z.infer<typeof nodeSchema>
export type Kept = z.infer<typeof keptSchema>
export type LiveState = NonNullable<LiveIntegration['opd']>
