/** Creates ledger rows from notices and decisions. Money stays exact decimal text. */
import { createHash } from 'node:crypto'
import { compare, type Decimal, decimal, difference, times } from '../../opd/base/decimal.ts'
import { clearingDefaults, type Integration } from '../../opd/config.ts'
import { truncateWithHash } from '../../opd/pricing/record.ts'
import { armRules } from '../../opd/shared/arms.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { type LedgerRow, storable } from '../store/tables.ts'
import type { Notice } from './notice.ts'

/** Reason of an unattributed win whose shared bid log could not be asked. */
export const provisional = 'provisional'

/** The event that trains the model, and the event that counts money, by the supplier's `notices`. */
const eventRules = {
  win: { training: 'win', money: 'win' },
  billing: { training: 'billing', money: 'billing' },
  both: { training: 'win', money: 'billing' },
} as const

export const eventsOf = (integration: Integration | null) =>
  eventRules[integration?.notices ?? 'win']

const longestBidId = 512
/** A bid id as the ledger stores and looks it up: an index row is limited to some 2,700 bytes. */
export const ledgerBidId = (bidId: string) => truncateWithHash(storable(bidId), longestBidId)

const orNull = (text: string) => (text === '' ? null : storable(text))

const longestIdentity = 256

/** An identity that fits any index: the text itself, or its hash. */
function identity(kind: string, text: string): string {
  const complete = storable(text)
  if (complete === text && Buffer.byteLength(text) <= longestIdentity) return `${kind}:${text}`
  return `${kind}:sha256:${createHash('sha256').update(text).digest('base64url')}`
}

const supplierId = /^[a-z0-9_-]{1,63}$/

/**
 * The identity of an unattributed win: its bid id, and the supplier if the notice names one. The named supplier may
 * be any text.
 */
function bidIdentity({ bidId, ssp }: Notice): string {
  if (ssp === undefined) return identity('bid', bidId)
  return supplierId.test(ssp) ? identity(`bid@${ssp}`, bidId) : identity('bid@', `${ssp}\0${bidId}`)
}

/** 0.5 %. */
const overShare = { digits: 1005n, scale: 3 }

/** Whether the cleared price is above this multiple of out_ba. */
function exceeds(cleared: string, outBa: string, share: Decimal | null): boolean {
  const [paid, asked] = [decimal(cleared), decimal(outBa)]
  return paid !== null && asked !== null && share !== null && compare(paid, times(asked, share)) > 0
}

/**
 * Whether a notice is refused for its cleared price: it is 0, which no exchange charges, or so far above the price sent that
 * it has another unit. The exchange may not have applied the price of an agent call, so there the bid's own price counts.
 * `record` null: the bid is not known.
 */
export function isImplausible(
  cleared: string,
  record: Pick<DecisionRecord, 'via' | 'inBa' | 'outBa'> | null,
  integration: Integration | null,
): boolean {
  if (decimal(cleared)?.digits === 0n) return true
  if (record === null) return false
  const { maxOver } = integration?.clearing ?? clearingDefaults
  const sent = record.via === 'agent' ? String(ownPrice(record, integration)) : record.outBa
  return exceeds(cleared, sent, decimal(String(maxOver)))
}

/** The price of the bid before the client fee. */
function ownPrice({ inBa }: Pick<DecisionRecord, 'inBa'>, integration: Integration | null): number {
  const opd = integration?.opd
  const fee = opd == null || opd === 'invalid' ? 0 : opd.clientFee
  return Number(inBa) / (1 - fee)
}

/** Of the price: platforms round. */
const rounding = 0.005

/**
 * Whether the exchange applied the lower price that an agent call was answered with; null: there was none. It may refuse a
 * mutation: then the bid competes at its own price, and clears at it in a first-price auction.
 */
function isApplied(
  cleared: string,
  record: DecisionRecord,
  integration: Integration | null,
): boolean | null {
  const [paid, ownAmount, sent] = [
    Number(cleared),
    ownPrice(record, integration),
    Number(record.outBa),
  ]
  if (record.via !== 'agent' || !(sent < ownAmount)) return null
  const fromOwn = Math.abs(paid - ownAmount)
  return !(fromOwn <= ownAmount * rounding && fromOwn < Math.abs(paid - sent))
}

function blank(notice: Notice, time: number) {
  return {
    event: notice.event,
    bid_id: ledgerBidId(notice.bidId),
    by: null,
    supplier: null,
    mode: null,
    arm: null,
    via: null,
    publisher: null,
    domain: null,
    seat: null,
    country: null,
    device: null,
    format: null,
    size: null,
    deal: null,
    in_ba: null,
    out_ba: null,
    cleared: notice.price,
    price_dsp: notice.priceDsp ?? null,
    currency: null,
    margin: null,
    late: 0,
    over: 0,
    applied: null,
    decided_at: null,
    at: Math.floor(time),
  }
}

const decided = (record: DecisionRecord) => ({
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  via: record.via,
  publisher: orNull(record.publisher),
  domain: orNull(record.domain),
  seat: orNull(record.seat ?? ''),
  country: orNull(record.facets?.country ?? ''),
  device: orNull(record.facets?.device ?? ''),
  format: orNull(record.facets?.format ?? ''),
  size: orNull(record.facets?.size ?? ''),
  deal: orNull(record.facets?.deal ?? ''),
  in_ba: record.inBa,
  out_ba: record.outBa,
  currency: storable(record.currency),
  decided_at: Math.floor(record.decidedAt),
})

export const rejectedRow = (
  notice: Notice,
  record: DecisionRecord | null,
  reason: string,
  time: number,
): LedgerRow => ({
  ...blank(notice, time),
  ...(record === null ? {} : decided(record)),
  decision: identity('rejected', `${reason}\n${notice.bidId}\n${notice.svcOpd ?? ''}`),
  status: 'rejected',
  reason,
})

export const unattributedRow = (
  notice: Notice,
  supplier: string | null,
  reason: string,
  time: number,
  memo: string | null,
): LedgerRow => ({
  ...blank(notice, time),
  supplier,
  decision: bidIdentity(notice),
  status: 'unattributed',
  reason,
  notice: memo,
})

export interface Attribution {
  record: DecisionRecord
  by: 'context' | 'bid_log'
  late: boolean
  integration: Integration | null
  reason: string | null
}

export function attributedRow(notice: Notice, attribution: Attribution, time: number): LedgerRow {
  const { record, integration } = attribution
  const money = armRules[record.arm].money && eventsOf(integration).money === notice.event
  const opd = integration?.opd
  const paidByDemandPrice = opd != null && opd !== 'invalid' && opd.priceDsp
  const priceDsp = notice.priceDsp ?? record.priceDsp ?? null
  const applied = isApplied(notice.price, record, integration)
  const revenue = paidByDemandPrice ? (priceDsp ?? record.inBa) : record.inBa
  return {
    ...blank(notice, time),
    ...decided(record),
    decision: record.id,
    status: 'attributed',
    by: attribution.by,
    price_dsp: priceDsp,
    // OPD earned nothing with a price that was not applied.
    margin: !money ? null : applied === false ? '0' : difference(revenue, notice.price),
    late: attribution.late ? 1 : 0,
    over: applied !== false && exceeds(notice.price, record.outBa, overShare) ? 1 : 0,
    applied: applied === null ? null : Number(applied),
    reason: attribution.reason,
  }
}
