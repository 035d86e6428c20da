/**
 * Decided bids, counted until they are handed on as rows: by hour, supplier, mode, arm and via, with the names of publisher,
 * domain and seat, and again with the facets.
 */
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { Facets } from '../../opd/shared/facets.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { hour, hourOf } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

export type SeatRow = WithSeat<DecidedRow>

/** The bids with some facets. */
export type FacetsRow = Omit<DecidedRow, 'publisher' | 'domain'> & { facets: Facets }

/** The rows of bids with these names in one hour; they differ in mode, arm or via. */
interface NamedRows {
  /** The hour, milliseconds. */
  begin: number
  publisher: string
  domain: string
  seat: string
  rows: SeatRow[]
}

/** Places of a supplier's rows at first, and at most: powers of two. */
const firstPlaces = 16
const maxPlaces = 4096
/** Rows are at the place of their names, or at one of the next. */
const tries = 8
/** Names with rows, of all suppliers: 10 MB. Bids with further ones are handed on one by one. */
const maxNames = 32_000
/** Rows, and combinations of facets, that are handed on in one step: all at once would hold the event loop for 10 ms. */
const rowsAtOnce = 256
const facetsAtOnce = 100
/** Combinations of facets that are counted between two drains, 25 MB; those of more bids count as not known. */
const maxFacets = 100_000

/** By three characters and the length of each name, which distinguish most of them. */
const hashOf = (publisher: string, domain: string, seat: string) =>
  partOf(publisher) + 997 * partOf(domain) + 4099 * partOf(seat)

function partOf(text: string): number {
  const { length } = text
  if (length === 0) return 0
  const last = text.charCodeAt(length - 1)
  const before = length === 1 ? 0 : text.charCodeAt(length - 2)
  return length + 7 * last + 61 * before + 131 * text.charCodeAt(length >> 1)
}

/** The rows of one supplier, by names: a key as text takes longer to build and hash than all else that is counted. */
class SupplierRows {
  /** Of names. */
  count = 0
  private places = new Array<NamedRows | null>(firstPlaces).fill(null)

  find({ decidedAt: time, publisher, domain, seat = '' }: DecisionRecord): NamedRows | null {
    const { places } = this
    const hash = hashOf(publisher, domain, seat)
    for (let tried = 0; tried < tries; tried++) {
      const named = places[(hash + tried) & (places.length - 1)]!
      if (named === null) return null
      if (
        named.publisher === publisher &&
        named.domain === domain &&
        named.seat === seat &&
        time >= named.begin &&
        time < named.begin + hour
      )
        return named
    }
    return null
  }

  /** Returns the rows that have lost their place, if any have. */
  addRows(named: NamedRows): NamedRows[] {
    const lost = this.count * 2 >= this.places.length ? this.grow() : []
    const replaced = this.put(named)
    return replaced === null ? lost : [...lost, replaced]
  }

  private grow(): NamedRows[] {
    const { places } = this
    if (places.length >= maxPlaces) return []
    this.places = new Array<NamedRows | null>(places.length * 2).fill(null)
    this.count = 0
    return places.flatMap((named) => (named === null ? [] : (this.put(named) ?? [])))
  }

  private put(named: NamedRows): NamedRows | null {
    const { places } = this
    const hash = hashOf(named.publisher, named.domain, named.seat)
    const first = hash & (places.length - 1)
    for (let tried = 0; tried < tries; tried++) {
      const place = (hash + tried) & (places.length - 1)
      if (places[place] !== null) continue
      places[place] = named
      this.count++
      return null
    }
    const replaced = places[first]!
    places[first] = named
    return replaced
  }

  *[Symbol.iterator](): Generator<SeatRow, void> {
    for (const named of this.places) if (named !== null) yield* named.rows
  }
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
  addBid(row, inBa, outBa)
}

function addBid<Row extends Counted>(row: Row, inBa: number, outBa: number): Row {
  row.bids++
  row.in_sum += summable(inBa)
  row.out_sum += summable(outBa)
  return row
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
  /** Those that were handed on longest ago are first. */
  private bySupplier = new Map<string, SupplierRows>()
  /** Names with rows. */
  private names = 0
  /** Facets of different suppliers and hours are different objects. */
  private byFacets = new Map<Facets, FacetsRow[]>()

  /** Both take ownership of a row. They may get several with one key. */
  constructor(addRow: (row: SeatRow) => void, addFacets: (row: FacetsRow) => void) {
    this.addRow = addRow
    this.addFacets = addFacets
  }

  decided(record: DecisionRecord, inBa: number, outBa: number): void {
    if (record.arm === 'test') return
    this.countNames(record, inBa, outBa)
    const { facets } = record
    if (facets === undefined) return
    const rows = this.byFacets.get(facets)
    if (rows !== undefined) return count(rows, record, inBa, outBa, facetsRow)
    if (this.byFacets.size >= maxFacets) return
    // Most have one row: `push` would take the memory of 17.
    this.byFacets.set(facets, [addBid(facetsRow(record), inBa, outBa)])
  }

  private countNames(record: DecisionRecord, inBa: number, outBa: number): void {
    const ofSupplier = getOrAdd(this.bySupplier, record.supplier, () => new SupplierRows())
    const known = ofSupplier.find(record)
    if (known !== null) return count(known.rows, record, inBa, outBa, seatRow)
    const row = addBid(seatRow(record), inBa, outBa)
    if (this.names >= maxNames) return this.addRow(row)
    const { decidedAt, publisher, domain, seat = '' } = record
    const before = ofSupplier.count
    const named = { begin: hourOf(decidedAt), publisher, domain, seat, rows: [row] }
    for (const { rows: lost } of ofSupplier.addRows(named)) for (const row of lost) this.addRow(row)
    this.names += ofSupplier.count - before
  }

  /**
   * Takes rows with names, and hands on some of them at each step.
   *
   * @param most names after which no further supplier's rows are taken, unless there are as many as are kept
   */
  drain(most = Number.POSITIVE_INFINITY): Generator<undefined, void> {
    const taken: SupplierRows[] = []
    let left = this.names < maxNames ? most : Number.POSITIVE_INFINITY
    for (const [supplier, rows] of this.bySupplier) {
      if (left <= 0) break
      this.bySupplier.delete(supplier)
      this.names -= rows.count
      left -= rows.count
      taken.push(rows)
    }
    return handOn(taken, this.addRow, rowsAtOnce)
  }

  /** Takes all rows with facets, and hands on some of them at each step. */
  drainFacets(): Generator<undefined, void> {
    const taken = this.byFacets
    this.byFacets = new Map()
    return handOn(taken.values(), this.addFacets, facetsAtOnce)
  }
}

/** @param atOnce rows of one step */
function* handOn<Row>(
  groups: Iterable<Iterable<Row>>,
  add: (row: Row) => void,
  atOnce: number,
): Generator<undefined, void> {
  let left = atOnce
  for (const group of groups)
    for (const row of group) {
      add(row)
      if (--left > 0) continue
      left = atOnce
      yield
    }
}
