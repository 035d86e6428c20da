/**
 * Prices the bids of an agent call (CONTRACT 15): the eligibility and the pricing of bid responses, for an exchange that
 * calls bidweir with a bid response and applies the prices that come back. A bid needs no macro, because its price returns
 * in the answer.
 */
import { getOrAdd } from '../base/get-or-add.ts'
import type { OpdConfig } from '../config.ts'
import { checkEligibility, type Rules } from '../openrtb/eligibility.ts'
import type { ProtobufBid } from '../protobuf/response.ts'
import { ProtobufWriter } from '../protobuf/writer.ts'
import type { Rates } from '../shared/rates.ts'
import type { BidReason, PriceBid } from '../shared/reasons.ts'
import { type AgentCall, bidShade, maxAgentBids } from './call.ts'

/** OPERATION_REPLACE. */
const replace = 3

/** Why a call is answered without a mutation of any bid. */
export const agentReasons = [
  'malformed',
  'lifecycle',
  'intent',
  'no_response',
  'unknown_supplier',
  'inactive',
  'disabled',
  'too_large',
  'overload',
  'internal',
] as const
export type AgentReason = (typeof agentReasons)[number]

/** A new price of one bid. */
export interface Mutation {
  bid: ProtobufBid
  /** CPM in the currency of the response. */
  price: number
}

export interface AgentPricing {
  opd: OpdConfig
  rates: Rates | null
  base: string
  price: PriceBid
  /** Counts a bid that was left alone. */
  onBid: (reason: BidReason) => void
}

/**
 * Why the call is not about prices of bids; null: it is.
 *
 * @param call with or without bids; at most `maxAgentBids` are priced
 */
export function refusalOf(call: AgentCall): AgentReason | null {
  if (!call.isBidResponse) return 'lifecycle'
  if (!call.takesPrices) return 'intent'
  if (call.response === null || call.response.bids.length === 0) return 'no_response'
  return call.response.bids.length > maxAgentBids ? 'too_large' : null
}

/**
 * Prices the bids of a call one by one, so that the caller can yield to the event loop or stop at a deadline. A value for
 * each bid: its new price, or null if it keeps its own.
 *
 * @param call one that `refusalOf` does not refuse
 * @param pricing the settings of the integration; `base`: three letters; `rates` null: only bids in the base currency
 */
export function* priceAgentBids(
  call: AgentCall,
  { opd, rates, base, price, onBid }: AgentPricing,
): Generator<Mutation | null> {
  const rules: Rules = { opd, rates, base }
  const bids = call.response?.bids ?? []
  const repeated = repeatedPaths(bids)
  const eligibilityOf = (bid: ProtobufBid): ReturnType<typeof checkEligibility> => {
    if (bid.hasMacro(call.bytes)) return { reason: 'has_macro' }
    // The exchange finds the bid by its path.
    if (!hasPath(bid) || repeated.has(bid)) return { reason: 'ambiguous' }
    return checkEligibility(bid, call.request, rules)
  }
  for (const bid of bids) {
    const eligibility = eligibilityOf(bid)
    if ('reason' in eligibility) {
      onBid(eligibility.reason)
      yield null
      continue
    }
    const { priceText } = price(eligibility.bid, 'agent')
    // Rounding to the nearest double keeps the order: the double is never above that of in_ba, nor below that of the floor.
    const rounded = priceText === null ? bid.price! : Number(priceText)
    yield rounded < bid.price! ? { bid, price: rounded } : null
  }
}

/** A name in a path, where `/` and `~` are escaped as in RFC 6901. */
const escaped = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1')

/** `/seatbid/<seat>/bid/<bid id>`; a seat without a name is named by its index. */
export const pathOf = ({ seat, bidId }: ProtobufBid) =>
  `/seatbid/${escaped(seat.name ?? String(seat.index))}/bid/${escaped(bidId)}`

/**
 * Characters of a bid id, and of a seat's name, in a path. The name is in the path of each bid of the seat: without a bound, a
 * call of 4 MiB could ask for an answer of gigabytes.
 */
const maxName = 256

/** Whether a path of bounded length names the bid. */
const hasPath = ({ bidId, seat: { name } }: ProtobufBid) =>
  bidId !== '' && bidId.length <= maxName && (name === null || name.length <= maxName)

/** The bids whose path another bid of the call has too. */
function repeatedPaths(bids: readonly ProtobufBid[]): ReadonlySet<ProtobufBid> {
  const bySeat = new Map<string, Map<string, ProtobufBid>>()
  const repeated = new Set<ProtobufBid>()
  for (const bid of bids) {
    if (!hasPath(bid)) continue
    const seat = bid.seat.name ?? String(bid.seat.index)
    const known = getOrAdd(bySeat, seat, () => new Map<string, ProtobufBid>())
    const first = known.get(bid.bidId)
    if (first === undefined) known.set(bid.bidId, bid)
    else repeated.add(first).add(bid)
  }
  return repeated
}

/**
 * Writes an RTBResponse.
 *
 * @param id - of the call
 * @param modelVersion - of the model that priced, `revenue-3-12`; absent: no model was asked
 */
export function writeAgentAnswer(
  id: string,
  mutations: readonly Mutation[],
  modelVersion: string | null,
): Buffer {
  const answer = new ProtobufWriter()
  if (id !== '') answer.text(1, id)
  for (const { bid, price } of mutations)
    answer.message(
      2,
      new ProtobufWriter()
        .int32(1, bidShade)
        .int32(2, replace)
        .text(3, pathOf(bid))
        .message(102, new ProtobufWriter().double(1, price)),
    )
  const metadata = new ProtobufWriter().text(1, '1.0')
  if (modelVersion !== null) metadata.text(2, modelVersion)
  return answer.message(3, metadata).bytes()
}
