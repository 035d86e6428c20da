/** Rows of other nodes that wait to be taught here, at once or in slices. */
import { ReceivedRows, type Row } from './update-log.ts'

/** Taught by one call, and beside one exposure, where that is done in slices; and most that wait. */
const atOnce = 300
const beside = 8
const most = 65_536
/** Rows of one slice while the curve is shared or adopted. */
const caughtUpAtOnce = 250

export class Receiving {
  rows = new ReceivedRows()
  /** Rows that were trained before, for a curve of another node that lacks them. */
  repeated = new ReceivedRows()
  private readonly slices: boolean
  private readonly teach: (row: Row) => void
  private readonly again: (row: Row) => void

  constructor(slices: boolean, teach: (row: Row) => void, again: (row: Row) => void) {
    this.slices = slices
    this.teach = teach
    this.again = again
  }

  add(rows: Uint8Array): void {
    this.rows.add(rows)
    if (this.rows.size > most) this.some(this.rows.size - most)
  }

  /** The curve is another: what waits is in it, save these rows. */
  replace(rows: Uint8Array): void {
    this.rows = new ReceivedRows()
    this.repeated = new ReceivedRows()
    this.add(rows)
  }

  /** What was received is taught before anything is asked, save where that is done in slices. */
  beforeAsked(): void {
    if (!this.slices) this.some()
  }

  beside(): void {
    this.some(this.slices ? beside : Number.POSITIVE_INFINITY)
  }

  advance(): void {
    this.some(this.slices ? atOnce : Number.POSITIVE_INFINITY)
  }

  /** What was merged is trained, in slices. */
  *catchingUp(): Generator<undefined, void> {
    while (this.rows.size > 0 || this.repeated.size > 0) {
      this.some(caughtUpAtOnce)
      yield
    }
  }

  private some(count = Number.POSITIVE_INFINITY): void {
    if (this.repeated.size > 0) this.repeated.take(count, this.again)
    if (this.rows.size > 0) this.rows.take(count, this.teach)
  }
}
