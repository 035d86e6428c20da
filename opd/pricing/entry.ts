/** The line of the decision log for one decision. */

import type { Decision } from '../learner.ts'
import type { DecisionEntry } from '../ports.ts'
import type { EligibleBid } from '../shared/reasons.ts'
import { shortId } from '../shared/short-id.ts'
import type { DecisionRecord } from '../types.ts'
import { hashName } from './record.ts'

/** `inBa` and `out` are CPM in the currency of the bid, of which there are `rate` for one unit of the base currency. */
export function entryOf(
  record: DecisionRecord,
  bid: EligibleBid,
  rate: number,
  inBa: number,
  out: number,
  minFactor: number,
  decision: Decision | null,
): DecisionEntry {
  const { publisher: _publisher, domain: _domain, ...features } = bid.features
  return {
    time: record.decidedAt,
    id: record.id,
    request: shortId(bid.auction),
    ssp: record.supplier,
    mode: record.mode,
    arm: record.arm,
    propensity: record.propensity,
    density: record.arm === 'explored' ? (decision?.density ?? null) : null,
    in: inBa / rate,
    floor: bid.floor / rate,
    out: out / rate,
    low: Math.min(1, Math.max(minFactor, inBa > 0 ? bid.floor / inBa : 1)),
    winIn: record.winIn ?? null,
    winOut: record.winOut ?? null,
    theta: decision?.theta ?? null,
    lambda: decision?.lambda ?? null,
    guard: decision?.guard ?? null,
    publisher: record.publisher === '' ? null : hashName(record.publisher),
    domain: record.domain === '' ? null : hashName(record.domain),
    features,
    model: record.modelVersion,
  }
}
