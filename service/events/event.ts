/** The events of the stream, and how they are made of decisions and of rows of the ledger. */
import * as z from 'zod'
import { lossOutcome } from '../../admin/impressions/outcome.ts'
import type { Outcome } from '../../admin/store/outcomes.ts'
import { type LedgerRow, storable } from '../../admin/store/tables.ts'
import { vias } from '../../opd/shared/arms.ts'
import type { DecisionRecord } from '../../opd/types.ts'

const text = z.string()
const textOrNull = z.string().nullable()
const money = z
  .string()
  .regex(/^-?[0-9]+(\.[0-9]+)?$/)
  .describe('Exact decimal, CPM in `currency`')
const number = z.number().nullable()
const time = z.int().describe('Milliseconds since 1970')

const every = {
  schema: z.literal(1).describe('Version of this schema. New members do not change it'),
  decision: text.describe('Id of the decision, the key of the event'),
  version: z
    .int()
    .min(0)
    .describe('Of events with the same type, decision and event, the one with the highest counts'),
  time,
}

const decisionEvent = z
  .strictObject({
    ...every,
    type: z.literal('decision'),
    ssp: text,
    mode: text,
    arm: text,
    via: z.enum(vias).describe('How the bid came to be priced'),
    propensity: z.number().describe('Probability of the arm'),
    publisher: textOrNull,
    domain: textOrNull,
    in: money.describe('in_ba'),
    out: money.describe('out_ba'),
    currency: text,
    floor: number,
    win_in: number.describe('Win probability at `in`; null: the model was not asked'),
    win_out: number,
    guard: textOrNull,
    model: z.int().describe('Version of the model'),
  })
  .describe('A bid that was priced. Bids of test requests have no event')

const winEvent = z
  .strictObject({
    ...every,
    type: z.literal('win'),
    event: z.enum(['win', 'billing']),
    status: z.enum(['attributed', 'voided']),
    time: time.describe('When the notice arrived'),
    decided_at: z.int().nullable(),
    ssp: textOrNull,
    notices: z
      .enum(['win', 'billing', 'both'])
      .describe('Setting of the supplier: which event is a win, and which is money'),
    mode: textOrNull,
    arm: textOrNull,
    via: textOrNull.describe('proxy, standalone or agent'),
    by: textOrNull.describe('context or bid_log'),
    publisher: textOrNull,
    domain: textOrNull,
    in: money.nullable(),
    out: money.nullable(),
    cleared: money,
    price_dsp: money.nullable(),
    currency: textOrNull,
    margin: money.nullable().describe('null: the event counts no money'),
    late: z.boolean(),
    over: z.boolean(),
    applied: z
      .boolean()
      .nullable()
      .describe(
        'Whether the exchange applied the lower price of an agent call; null: there was none',
      ),
  })
  .describe('A win notice that was attributed, or a win that was voided afterwards')

const lossEvent = z
  .strictObject({
    ...every,
    type: z.literal('loss'),
    ssp: text,
    reason: textOrNull.describe('Loss reason, list 5.25 of OpenRTB 2.6'),
    min_to_win: money.nullable(),
  })
  .describe('A loss notice that was attributed')

export const eventSchema = z.discriminatedUnion('type', [decisionEvent, winEvent, lossEvent])
export type StreamEvent = z.infer<typeof eventSchema>
type Win = z.infer<typeof winEvent>
export type Notices = Win['notices']

/** docs/reference/events.schema.json. */
export const eventJsonSchema = () => ({
  title: 'An event of bidweir',
  ...z.toJSONSchema(eventSchema),
})

const orNull = (value: string) => (value === '' ? null : storable(value))

export const decisionEventOf = (record: DecisionRecord): StreamEvent => ({
  schema: 1,
  type: 'decision',
  decision: record.id,
  version: 1,
  time: Math.floor(record.decidedAt),
  ssp: record.supplier,
  mode: record.mode,
  arm: record.arm,
  via: record.via,
  propensity: record.propensity,
  publisher: orNull(record.publisher),
  domain: orNull(record.domain),
  in: record.inBa,
  out: record.outBa,
  currency: record.currency,
  floor: record.floor ?? null,
  win_in: record.winIn ?? null,
  win_out: record.winOut ?? null,
  guard: record.guard ?? null,
  model: record.modelVersion,
})

/** null: the row is neither attributed nor voided. */
function winEventOf(row: LedgerRow, notices: Notices): StreamEvent | null {
  const { status } = row
  if (status !== 'attributed' && status !== 'voided') return null
  return {
    schema: 1,
    type: 'win',
    decision: row.decision,
    event: row.event as Win['event'],
    version: status === 'voided' ? 2 : 1,
    status,
    time: Number(row.at),
    decided_at: row.decided_at === null ? null : Number(row.decided_at),
    ssp: row.supplier,
    notices,
    mode: row.mode,
    arm: row.arm,
    via: row.via,
    by: row.by,
    publisher: row.publisher,
    domain: row.domain,
    in: row.in_ba,
    out: row.out_ba,
    cleared: row.cleared,
    price_dsp: row.price_dsp,
    currency: row.currency,
    margin: row.margin,
    late: Number(row.late) === 1,
    over: Number(row.over) === 1,
    applied: row.applied === null ? null : Number(row.applied) === 1,
  }
}

function lossEventOf({ decision, at: time, body }: Outcome): StreamEvent {
  const { supplier, reason, least } = lossOutcome(body)
  return {
    schema: 1,
    type: 'loss',
    decision,
    version: 1,
    time: Math.floor(time),
    ssp: supplier,
    reason: reason ?? null,
    min_to_win: least ?? null,
  }
}

/** null: no event follows the outcome. */
export function eventOf(
  outcome: Outcome,
  noticesOf: (supplier: string | null) => Notices,
): StreamEvent | null {
  if (outcome.kind === 'loss') return lossEventOf(outcome)
  const { row } = outcome
  return row === null ? null : winEventOf(row, noticesOf(row.supplier))
}
