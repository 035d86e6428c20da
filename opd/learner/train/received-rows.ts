/** Rows of other nodes, which train the model at once or in slices. This merges the models of nodes. */
import { type Row, rowBytes, rowOf, timeOf } from './update-log.ts'

/** The rows of one delta, sorted. */
interface Run {
  rows: Uint8Array
  offsets: number[]
  times: Float64Array
  next: number
}

/**
 * Rows are taken by time, then by their bytes, so the order of the deltas does not matter. Each delta is sorted when it is added,
 * and deltas are merged when rows are taken: sorting 60,000 rows at once took 50 ms.
 */
class ReceivedRows {
  size = 0
  private runs: Run[] = []
  private readonly train: (row: Row) => void

  constructor(train: (row: Row) => void) {
    this.train = train
  }

  /** @param rows whole rows, in any order; kept, and not changed */
  addRows(rows: Uint8Array): void {
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
  trainRows(most: number): void {
    for (let left = Math.min(most, this.size); left > 0; left--) {
      const run = this.earliest()
      const offset = run.offsets[run.next++]!
      if (run.next === run.offsets.length) this.runs.splice(this.runs.indexOf(run), 1)
      this.size--
      this.train(rowOf(run.rows, offset))
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

  /** The rows that are not taken yet, for a snapshot: those of this moment, copied in slices. */
  saving(): Generator<undefined, Uint8Array> {
    return copied(this.runs.map((run) => ({ ...run })))
  }
}

function* copied(runs: readonly Run[]): Generator<undefined, Uint8Array> {
  const count = runs.reduce((sum, { offsets, next }) => sum + offsets.length - next, 0)
  const bytes = new Uint8Array(count * rowBytes)
  let to = 0
  for (const { rows, offsets, next } of runs)
    for (let n = next; n < offsets.length; n++, to += rowBytes) {
      const from = offsets[n]!
      // Byte by byte: a view of each would take three times as long.
      for (let index = 0; index < rowBytes; index++) bytes[to + index] = rows[from + index]!
      if ((to / rowBytes) % savedAtOnce === 0) yield
    }
  return bytes
}

function compared(one: Uint8Array, from: number, other: Uint8Array, otherFrom: number): number {
  for (let index = 0; index < rowBytes; index++) {
    const difference = one[from + index]! - other[otherFrom + index]!
    if (difference !== 0) return difference
  }
  return 0
}

/** Rows that one `advance` and one exposure train in slices, and the number of rows that may wait. */
const [atOnce, beside, most] = [300, 8, 65_536]
/** Rows of one slice of a snapshot. */
const savedAtOnce = 4096
/** Rows of one slice before the curve is shared. */
const caughtUpAtOnce = 250

export class Received {
  readonly rows: ReceivedRows
  /** Rows of this node that the curve of another node lacks. */
  readonly repeated: ReceivedRows
  private readonly slices: boolean

  constructor(slices: boolean, train: (row: Row) => void, again: (row: Row) => void) {
    this.slices = slices
    this.rows = new ReceivedRows(train)
    this.repeated = new ReceivedRows(again)
  }

  /**
   * Rows that are too many to wait train the model at once.
   *
   * @param rows whole rows, in any order; kept, and not changed
   */
  addRows(rows: Uint8Array): void {
    this.rows.addRows(rows)
    if (this.rows.size > most) this.train(this.rows.size - most)
  }

  /**
   * The curve was replaced. It contains all waiting rows, which are dropped.
   *
   * @param rows those that it lacks
   */
  replace(rows: Uint8Array): void {
    this.rows.clear()
    this.repeated.clear()
    this.addRows(rows)
  }

  /** Without slices, all received rows train the model before it is used. */
  beforeUse(): void {
    if (!this.slices) this.train()
  }

  /** With each exposure. */
  besideExposure(): void {
    this.train(this.slices ? beside : undefined)
  }

  advance(): void {
    this.train(this.slices ? atOnce : undefined)
  }

  *catchingUp(): Generator<undefined, void> {
    while (this.rows.size > 0 || this.repeated.size > 0) {
      this.train(caughtUpAtOnce)
      yield
    }
  }

  private train(count = Number.POSITIVE_INFINITY): void {
    this.repeated.trainRows(count)
    this.rows.trainRows(count)
  }
}
