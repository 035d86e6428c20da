/**
 * Decided bids, counted until they are handed on as rows: by hour, supplier, mode, arm and via, with the names of publisher,
 * domain and seat, and again with the facets.
 */
import type { DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { Facets } from '../../opd/shared/facets.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { hour, hourOf } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

export type SeatRow = WithSeat<DecidedRow>

/** The bids with some facets. */
export type FacetsRow = Omit<DecidedRow, 'publisher' | 'domain'> & { facets: Facets }

/** The rows of recent bids with these names; they differ in mode, arm or via. */
interface NamedRows {
  supplier: string
  publisher: string
  domain: string
  seat: string
  rows: SeatRow[]
}

/** A power of two. */
const slots = 4096
/** Slots, and combinations of facets, whose rows are handed on in one step: all at once would hold the event loop for 10 ms. */
const slotsAtOnce = 256
const facetsAtOnce = 100
/** Combinations of facets that are counted between two drains, 25 MB; those of more bids count as not known. */
const maxFacets = 100_000

const noRows = (): (NamedRows | null)[] => new Array(slots).fill(null)

/** By three characters and the length of each name, which distinguish most of them. */
const slotOf = (supplier: string, publisher: string, domain: string, seat: string) =>
  (partOf(supplier) + 31 * partOf(publisher) + 997 * partOf(domain) + 4099 * partOf(seat)) &
  (slots - 1)

function partOf(text: string): number {
  const { length } = text
  if (length === 0) return 0
  const last = text.charCodeAt(length - 1)
  const before = length === 1 ? 0 : text.charCodeAt(length - 2)
  return length + 7 * last + 61 * before + 131 * text.charCodeAt(length >> 1)
}

const sumsOf = ({ decidedAt: time, supplier, mode, arm, via }: DecisionRecord) => ({
  ...{ hour: hourOf(time), supplier, mode, arm, via },
  ...{ bids: 0, in_sum: 0, out_sum: 0 },
})

type Counted = Pick<DecidedRow, 'mode' | 'arm' | 'via' | 'bids' | 'in_sum' | 'out_sum'>

/** Counts a bid in the row of its mode, arm and via, which `make` makes if there is none. */
function count<Row extends Counted>(
  rows: Row[],
  record: DecisionRecord,
  inBa: number,
  outBa: number,
  make: (record: DecisionRecord) => Row,
): void {
  const { mode, arm, via } = record
  let row = rows.find((row) => row.arm === arm && row.via === via && row.mode === mode)
  if (row === undefined) {
    row = make(record)
    rows.push(row)
  }
  row.bids++
  row.in_sum += summable(inBa)
  row.out_sum += summable(outBa)
}

const seatRow = (record: DecisionRecord): SeatRow => ({
  ...sumsOf(record),
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  seat: storable(record.seat ?? ''),
})

const facetsRow = (record: DecisionRecord): FacetsRow => ({
  ...sumsOf(record),
  facets: record.facets!,
})

/** Counts the bids of a process. */
export class DecidedBids implements DecisionObserver {
  private readonly addRow: (row: SeatRow) => void
  private readonly addFacets: (row: FacetsRow) => void
  private recent = noRows()
  /** The hour of the rows in `recent`, milliseconds. */
  private begin = Number.NaN
  /** Facets of different suppliers and hours are different objects. */
  private byFacets = new Map<Facets, FacetsRow[]>()

  /** Both take ownership of a row. They may get several with one key. */
  constructor(addRow: (row: SeatRow) => void, addFacets: (row: FacetsRow) => void) {
    this.addRow = addRow
    this.addFacets = addFacets
  }

  /** Called for every bid: to build and hash a key takes longer than all else that is counted. */
  decided(record: DecisionRecord, inBa: number, outBa: number): void {
    if (record.arm === 'test') return
    count(this.rowsOf(record), record, inBa, outBa, seatRow)
    const { facets } = record
    if (facets === undefined) return
    let rows = this.byFacets.get(facets)
    if (rows === undefined) {
      if (this.byFacets.size >= maxFacets) return
      rows = []
      this.byFacets.set(facets, rows)
    }
    count(rows, record, inBa, outBa, facetsRow)
  }

  /** Takes all rows with names, and hands on some of them at each step. */
  drain(): Generator<undefined, void> {
    const taken = this.recent
    this.recent = noRows()
    return this.handOnRows(taken)
  }

  /** Takes all rows with facets, and hands on some of them at each step. */
  drainFacets(): Generator<undefined, void> {
    const taken = this.byFacets
    this.byFacets = new Map()
    return this.handOnFacets(taken.values())
  }

  private *handOnRows(taken: readonly (NamedRows | null)[]): Generator<undefined, void> {
    for (const [slot, named] of taken.entries()) {
      for (const row of named?.rows ?? []) this.addRow(row)
      if (slot % slotsAtOnce === slotsAtOnce - 1) yield
    }
  }

  private *handOnFacets(taken: Iterable<FacetsRow[]>): Generator<undefined, void> {
    let left = facetsAtOnce
    for (const rows of taken) {
      for (const row of rows) this.addFacets(row)
      if (--left > 0) continue
      left = facetsAtOnce
      yield
    }
  }

  private empty(slot: number): void {
    for (const row of this.recent[slot]?.rows ?? []) this.addRow(row)
    this.recent[slot] = null
  }

  private rowsOf({
    decidedAt: time,
    supplier,
    publisher,
    domain,
    seat = '',
  }: DecisionRecord): SeatRow[] {
    if (!(time >= this.begin && time < this.begin + hour)) {
      for (let slot = 0; slot < slots; slot++) this.empty(slot)
      this.begin = hourOf(time)
    }
    const slot = slotOf(supplier, publisher, domain, seat)
    const known = this.recent[slot] ?? null
    if (
      known !== null &&
      known.publisher === publisher &&
      known.domain === domain &&
      known.seat === seat &&
      known.supplier === supplier
    )
      return known.rows
    this.empty(slot)
    const rows: SeatRow[] = []
    this.recent[slot] = { supplier, publisher, domain, seat, rows }
    return rows
  }
}
