/** Seats that are switched off: their bids are cut out of the bytes, OPD on or off (CONTRACT 3). */
import type { AnswerSpans, SeatSpans } from '../openrtb/response.ts'
import type { Splice } from './splice.ts'

export interface Cut {
  kept: SeatSpans[]
  /** Bids. */
  removed: number
}

/** null: it cannot be told whose bids stand there (no list, two lists, two names of one seat, an OpenRTB 3.0 envelope). */
export function cutSeats(
  answer: AnswerSpans,
  inactive: ReadonlySet<string>,
  splices: Splice[],
): Cut | null {
  const { seats } = answer
  const { shaped, enveloped, twoLists } = answer
  if (!shaped || enveloped || twoLists || seats.some((seat) => seat.twoNames)) return null
  const goes = (seat: SeatSpans) =>
    seat.filled && typeof seat.name === 'string' && inactive.has(seat.name)
  const kept = seats.filter((seat) => !goes(seat))
  if (kept.length === seats.length) return { kept, removed: 0 }
  let removed = 0
  // A cut takes the comma behind its element; where no kept element follows, the comma before.
  const lastKept = kept.length === 0 ? -1 : seats.indexOf(kept.at(-1)!)
  for (const [at, seat] of seats.entries()) {
    if (!goes(seat)) continue
    removed += Math.max(seat.bids.length, 1)
    if (at < lastKept) splices.push({ start: seat.start, end: seats[at + 1]!.start, text: '' })
  }
  const rest = seats[lastKept + 1]
  if (rest !== undefined) {
    const start = lastKept < 0 ? rest.start : seats[lastKept]!.end
    splices.push({ start, end: seats.at(-1)!.end, text: '' })
  }
  return { kept, removed }
}
