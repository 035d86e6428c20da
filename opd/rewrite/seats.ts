/** Seats that are switched off: their bids are cut out of the bytes, OPD on or off (CONTRACT 3). */
import type { AnswerSpans, SeatSpans } from './answer.ts'
import type { Splice } from './splice.ts'

/** null: it cannot be told whose bids stand there (a key that decides stands twice). */
export function cutSeats(
  answer: AnswerSpans,
  inactive: ReadonlySet<string>,
  splices: Splice[],
): { kept: SeatSpans[]; removed: number } | null {
  if (answer.ambiguous || answer.seats.some((seat) => seat.ambiguous)) return null
  const kept: SeatSpans[] = []
  let removed = 0
  const { seats } = answer
  // A cut takes the comma behind its element; where no kept element follows, the comma before.
  let lastKept = -1
  for (const [at, seat] of seats.entries())
    if (seat.seat === null || !inactive.has(seat.seat)) lastKept = at
  for (const [at, seat] of seats.entries()) {
    if (seat.seat === null || !inactive.has(seat.seat)) {
      kept.push(seat)
      continue
    }
    removed += seat.bids.length
    if (at < lastKept)
      splices.push({ start: seat.span.start, end: seats[at + 1]!.span.start, text: '' })
  }
  if (removed === 0 && kept.length === seats.length) return { kept, removed }
  if (lastKept < 0) {
    const [first] = seats
    splices.push({ start: first!.span.start, end: seats.at(-1)!.span.end, text: '' })
  } else if (lastKept < seats.length - 1) {
    const start = seats[lastKept]!.span.end
    // White space between the last element and the bracket stays.
    splices.push({ start, end: seats.at(-1)!.span.end, text: '' })
  }
  return { kept, removed }
}
