/** What follows the row of a notice, as the journal of outcomes keeps it until it has followed. */
import * as z from 'zod'
import { arms, modes, vias } from '../../opd/shared/arms.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import type { LedgerRow } from '../store/tables.ts'

const mode = z.enum(modes)
const via = z.enum(vias)
const arm = z.enum(arms)

/** Base64; empty: the bid does not train the model. */
const features = z.string()
/** Whether the notice may train the model; otherwise the exposure of its bid is withdrawn. */
const trains = z.boolean()
/** The lowest price that would have won, CPM in the currency of the bid. */
const least = z.string().optional()

/** The bid is pending on no node: it trains with its exposure. */
const past = z.boolean().optional()

const noticeSchema = z.union([
  z.object({
    status: z.literal('attributed'),
    features,
    trains,
    least,
    /** A notice that was looked up again was counted when it arrived. */
    isSecond: z.boolean(),
    past,
  }),
  z.object({
    status: z.enum(['unattributed', 'rejected']),
    supplier: z.string(),
    mode: z.string(),
  }),
])
export type NoticeOutcome = z.infer<typeof noticeSchema>

const lossSchema = z.object({
  supplier: z.string(),
  mode,
  arm,
  currency: z.string(),
  features,
  trains,
  least,
  past,
  reason: z.string().optional(),
})
export type LossOutcome = z.infer<typeof lossSchema>

export const noticeOutcome = (body: string): NoticeOutcome => noticeSchema.parse(JSON.parse(body))
/**
 * What an entry of the journal says of a loss.
 *
 * @param body JSON
 * @throws if the text is not such an outcome
 */
export const lossOutcome = (body: string): LossOutcome => lossSchema.parse(JSON.parse(body))

/** Without features, a notice of the bid does not train the model. */
export const featuresText = ({ trains, features }: DecisionRecord) =>
  trains ? Buffer.from(features).toString('base64') : ''

/** What the effects of a notice need of its decision. */
const unknownDecision = {
  via: 'proxy' as const,
  bidId: '',
  propensity: 1,
  inBa: '0',
  outBa: '0',
  decidedAt: 0,
  modelVersion: 0,
  publisher: '',
  domain: '',
}

const trained = (text: string) => ({
  trains: text !== '',
  features: new Uint8Array(Buffer.from(text, 'base64')),
})

/** The decision of an attributed row, as far as its effects need it; null: the row has none. */
export function decisionOf(row: LedgerRow, featuresOfBid: string): DecisionRecord | null {
  const [modeOfRow, armOfRow] = [mode.safeParse(row.mode), arm.safeParse(row.arm)]
  if (row.supplier === null || !modeOfRow.success || !armOfRow.success) return null
  return {
    ...unknownDecision,
    id: row.decision,
    bidId: row.bid_id,
    supplier: row.supplier,
    mode: modeOfRow.data,
    arm: armOfRow.data,
    via: via.catch('proxy').parse(row.via),
    inBa: row.in_ba ?? '0',
    outBa: row.out_ba ?? '0',
    currency: row.currency ?? '',
    decidedAt: Number(row.decided_at),
    publisher: row.publisher ?? '',
    domain: row.domain ?? '',
    ...(row.seat === null ? {} : { seat: row.seat }),
    ...trained(featuresOfBid),
  }
}

/** The decision of a loss, as far as its effects need it. */
export const decisionOfLoss = (id: string, loss: LossOutcome): DecisionRecord => ({
  ...unknownDecision,
  id,
  supplier: loss.supplier,
  mode: loss.mode,
  arm: loss.arm,
  currency: loss.currency,
  ...trained(loss.features),
})
