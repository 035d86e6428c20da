/** Removes inactive seats with their bids from a response, with OPD on or off (CONTRACT 3). */
import type { ResponseSpans, SeatSpans, Span } from '../openrtb/response.ts'

interface Removal {
  kept: SeatSpans[]
  /** Number of bids that were removed. */
  removed: number
  /** The bytes that are removed, in ascending order. */
  ranges: Span[]
}

/** null: it is not known which seat a bid belongs to: `seatbid` is no array, a key is repeated, or the response is OpenRTB 3.0. */
export function removeSeats(
  response: ResponseSpans,
  inactive: ReadonlySet<string>,
): Removal | null {
  const { seats, isWellFormed, isOpenRtb3, repeatedSeatbid } = response
  if (!isWellFormed || isOpenRtb3 || repeatedSeatbid || seats.some((seat) => seat.repeatedName))
    return null
  const isInactive = ({ hasBids, name }: SeatSpans) =>
    hasBids && name !== null && inactive.has(name)
  const kept = seats.filter((seat) => !isInactive(seat))
  if (kept.length === seats.length) return { kept, removed: 0, ranges: [] }
  const ranges: Span[] = []
  let removed = 0
  // A removed element takes the comma after it, or, if no kept element follows, the comma before it.
  const lastKept = kept.length === 0 ? -1 : seats.indexOf(kept.at(-1)!)
  for (const [index, seat] of seats.entries()) {
    if (!isInactive(seat)) continue
    removed += Math.max(seat.bids.length, 1)
    if (index < lastKept) ranges.push({ start: seat.start, end: seats[index + 1]!.start })
  }
  const rest = seats[lastKept + 1]
  if (rest !== undefined) {
    const start = lastKept < 0 ? rest.start : seats[lastKept]!.end
    ranges.push({ start, end: seats.at(-1)!.end })
  }
  return { kept, removed, ranges }
}
