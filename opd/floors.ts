/** The floor of one bid, in the bid's currency (CONTRACT 4.4). */
import type { Rates } from './config.ts'
import type { DealFacts, DurationFloors, Floor, ImpFacts } from './request.ts'

export interface BidFloor {
  amount: number
  /** The deciding floor's own text, where it came in the bid's currency. */
  text?: string
}

/** Units of `currency` for one unit of the base; null without a rate. */
export function rateOf(currency: string, rates: Rates | null, base: string): number | null {
  if (currency === base) return 1
  return rates === null || !Object.hasOwn(rates.rates, currency) ? null : rates.rates[currency]!
}

/** What a floor is in another currency; null where a rate is missing. */
function converted(
  amount: number,
  from: string,
  to: string,
  rates: Rates | null,
  base: string,
): number | null {
  if (from === to) return amount
  const [source, target] = [rateOf(from, rates, base), rateOf(to, rates, base)]
  return source === null || target === null ? null : (amount / source) * target
}

/** The largest duration floor that applies to a creative of `dur` seconds; 0 without a duration. */
function durationFloor(floors: DurationFloors | null, dur: unknown): number {
  if (floors === null || typeof dur !== 'number' || !(dur > 0)) return 0
  let largest = floors.perSecond * dur
  for (const { from, to, amount } of floors.ranges)
    if (dur >= from && dur <= to && amount > largest) largest = amount
  return largest
}

/** null: a floor above 0 stands in a currency that cannot be converted. */
export function floorOf(
  bid: { currency: string; dur: unknown; mtype: unknown },
  imp: ImpFacts,
  deal: DealFacts | null,
  rates: Rates | null,
  base: string,
): BidFloor | null {
  const timed =
    bid.mtype === 3 ? [imp.audio] : bid.mtype === 2 ? [imp.video] : [imp.video, imp.audio]
  const floors: Floor[] = [imp.floor]
  const add = (durations: DurationFloors | null, currency: string) => {
    const amount = durationFloor(durations, bid.dur)
    if (amount > 0) floors.push({ amount, text: '', currency })
  }
  for (const durations of timed) add(durations, imp.floor.currency)
  if (deal !== null) {
    floors.push(deal.floor)
    add(deal.durations, deal.floor.currency)
  }
  let largest: BidFloor = { amount: 0 }
  for (const floor of floors) {
    if (floor.amount === 0) continue
    const amount = converted(floor.amount, floor.currency, bid.currency, rates, base)
    if (amount === null) return null
    if (amount <= largest.amount) continue
    const own = floor.currency === bid.currency && floor.text !== ''
    largest = own ? { amount, text: floor.text } : { amount }
  }
  return largest
}
