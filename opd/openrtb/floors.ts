/** The floor of one bid, in the bid's currency (CONTRACT 4.4). */
import { type Rates, rateOf } from '../shared/rates.ts'
import type { DealFacts, DurationFloors, Floor, ImpFacts } from './facts.ts'

export interface BidFloor {
  amount: number
  /** The floor as it was sent, if it is in the bid's currency. */
  text?: string
}

/** The floor in another currency; null: a rate is missing. */
function converted(floor: Floor, to: string, rates: Rates | null, base: string): number | null {
  if (floor.currency === to) return floor.amount
  if (floor.currency === null) return null
  const [source, target] = [rateOf(floor.currency, rates, base), rateOf(to, rates, base)]
  return source === null || target === null ? null : (floor.amount / source) * target
}

/** The largest duration floor that applies to a creative of `dur` seconds; 0 without a duration. */
function durationFloor({ perSecond, ranges }: DurationFloors, dur: number): number {
  // 15 digits, so that 0.1 * 3 is 0.3 and not 0.30000000000000004.
  let largest = Number((perSecond * dur).toPrecision(15))
  for (const { from, to, amount } of ranges)
    if (dur >= from && dur <= to && amount > largest) largest = amount
  return largest
}

/** The duration floors for the type of the bid; without a type, those of video and audio. */
function timedOf(mtype: number | undefined, { video, audio }: ImpFacts) {
  if (mtype === 2) return [video]
  if (mtype === 3) return [audio]
  return [video, audio]
}

function durationFloors(
  dur: number,
  mtype: number | undefined,
  imp: ImpFacts,
  deal: DealFacts | null,
) {
  const floors: Floor[] = []
  const add = (durations: DurationFloors | null, { currency }: Floor) => {
    if (durations === null || (durations.perSecond === 0 && durations.ranges.length === 0)) return
    floors.push({ amount: durationFloor(durations, dur), text: '', currency })
  }
  for (const timed of timedOf(mtype, imp)) add(timed, imp.floor)
  if (deal !== null) add(deal, deal.floor)
  return floors
}

/** null: a floor above 0 is in a currency that cannot be converted. */
export function floorOf(
  currency: string,
  dur: unknown,
  mtype: number | undefined,
  imp: ImpFacts,
  deal: DealFacts | null,
  { rates, base }: { rates: Rates | null; base: string },
): BidFloor | null {
  const floors = deal === null ? [imp.floor] : [imp.floor, deal.floor]
  const seconds = typeof dur === 'string' ? Number(dur) : dur
  if (typeof seconds === 'number' && seconds > 0)
    floors.push(...durationFloors(seconds, mtype, imp, deal))
  let largest: BidFloor = { amount: 0 }
  for (const floor of floors) {
    if (floor.amount === 0) continue
    const amount = converted(floor, currency, rates, base)
    if (amount === null) return null
    if (amount <= largest.amount) continue
    largest =
      floor.currency === currency && floor.text !== '' ? { amount, text: floor.text } : { amount }
  }
  if (largest.amount > Number.MAX_VALUE) return { amount: Number.MAX_VALUE }
  return largest
}
