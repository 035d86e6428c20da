/** Rows of other nodes that wait to be trained with, at once or in slices. */
import { type Row, rowBytes, rowOf, timeOf } from './update-log.ts'

/** Rows of one delta in their order. */
interface Run {
  rows: Uint8Array
  offsets: number[]
  times: Float64Array
  next: number
}

/**
 * Taken by time, then by their bytes: the order of the deltas does not matter. Each delta is sorted as it comes (it nearly
 * is), and deltas are merged as rows are taken: sorting 60,000 rows in one go took 50 ms.
 */
class ReceivedRows {
  size = 0
  private runs: Run[] = []
  private readonly train: (row: Row) => void

  constructor(train: (row: Row) => void) {
    this.train = train
  }

  /** Whole rows. */
  add(rows: Uint8Array): void {
    if (rows.length === 0) return
    const count = rows.length / rowBytes
    const unsorted = Float64Array.from({ length: count }, (_each, n) => timeOf(rows, n * rowBytes))
    const order = Array.from(unsorted.keys()).sort(
      (one, other) =>
        unsorted[one]! - unsorted[other]! || compared(rows, one * rowBytes, rows, other * rowBytes),
    )
    const times = unsorted.map((_each, n) => unsorted[order[n]!]!)
    this.runs.push({ rows, offsets: order.map((n) => n * rowBytes), times, next: 0 })
    this.size += count
  }

  /** Trains with up to `most` rows. */
  take(most: number): void {
    for (let left = Math.min(most, this.size); left > 0; left--) {
      const run = this.earliest()
      const at = run.offsets[run.next++]!
      if (run.next === run.offsets.length) this.runs.splice(this.runs.indexOf(run), 1)
      this.size--
      this.train(rowOf(run.rows, at))
    }
  }

  private earliest(): Run {
    return this.runs.reduce((found, run) => {
      const later = run.times[run.next]! - found.times[found.next]!
      if (later !== 0) return later < 0 ? run : found
      const order = compared(
        run.rows,
        run.offsets[run.next]!,
        found.rows,
        found.offsets[found.next]!,
      )
      return order < 0 ? run : found
    })
  }

  clear(): void {
    this.runs = []
    this.size = 0
  }

  /** What waits, for a snapshot. */
  saved(): Uint8Array {
    return Buffer.concat(
      this.runs.flatMap(({ rows, offsets, next }) =>
        offsets.slice(next).map((at) => rows.subarray(at, at + rowBytes)),
      ),
    )
  }
}

function compared(one: Uint8Array, from: number, other: Uint8Array, otherFrom: number): number {
  for (let at = 0; at < rowBytes; at++) {
    const difference = one[from + at]! - other[otherFrom + at]!
    if (difference !== 0) return difference
  }
  return 0
}

/** Rows that one `advance` trains with, and one exposure, where that is done in slices; and most that wait. */
const [atOnce, beside, most] = [300, 8, 65_536]
/** Rows of one slice while the curve is shared. */
const caughtUpAtOnce = 250

export class Received {
  readonly rows: ReceivedRows
  /** Rows that were trained with before, for a curve of another node that lacks them. */
  readonly repeated: ReceivedRows
  private readonly slices: boolean

  constructor(slices: boolean, train: (row: Row) => void, again: (row: Row) => void) {
    this.slices = slices
    this.rows = new ReceivedRows(train)
    this.repeated = new ReceivedRows(again)
  }

  add(rows: Uint8Array): void {
    this.rows.add(rows)
    if (this.rows.size > most) this.some(this.rows.size - most)
  }

  /** The curve is another: what waits is in it, save these rows. */
  replace(rows: Uint8Array): void {
    this.rows.clear()
    this.repeated.clear()
    this.add(rows)
  }

  /** What was received is trained with before anything is asked, save where that is done in slices. */
  beforeAsked(): void {
    if (!this.slices) this.some()
  }

  beside(): void {
    this.some(this.slices ? beside : undefined)
  }

  advance(): void {
    this.some(this.slices ? atOnce : undefined)
  }

  *catchingUp(): Generator<undefined, void> {
    while (this.rows.size > 0 || this.repeated.size > 0) {
      this.some(caughtUpAtOnce)
      yield
    }
  }

  private some(count = Number.POSITIVE_INFINITY): void {
    this.repeated.take(count)
    this.rows.take(count)
  }
}
