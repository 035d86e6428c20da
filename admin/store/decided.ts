/**
 * Decided bids, counted until they are handed on as rows: by hour, supplier, mode, arm and via, with the names of publisher,
 * domain and seat, and again with the facets.
 *
 * Names and facets are objects of all suppliers, so that the sums of a supplier are found by their identity.
 */
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { hashText } from '../../opd/base/hash.ts'
import type { BidObserver, DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { Facets } from '../../opd/shared/facets.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { type BidSum, BidSums, groupAlone } from './bid-sums.ts'
import { hour } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

export type SeatRow = WithSeat<DecidedRow>

/** The bids with some facets. */
export type FacetsRow = Omit<DecidedRow, 'publisher' | 'domain'> & { facets: Facets }

/** Places of the names of all suppliers, 10 MB: a power of two. Names are at the place of their hash, or at one of the next. */
const namePlaces = 32_768
const tries = 8
/** Sums by names, of all suppliers: 5 MB, twice as much while they become more. Bids of further ones are handed on one by one. */
const mostByNames = 32_000
/** Sums by facets that are counted between two drains: 19 MB, twice as much while they become more. Facets of further ones count as not known. */
const mostByFacets = 100_000
/** Rows, and combinations of facets, that are handed on in one step: all at once would hold the event loop for 10 ms. */
const rowsAtOnce = 256
const facetsAtOnce = 100

interface Names {
  readonly publisher: string
  readonly domain: string
  readonly seat: string
}

/** By all characters: with fewer, thousands of names such as `p-1234` would have the same places. */
const hashOf = (publisher: string, domain: string, seat: string) =>
  hashText(publisher, hashText(domain, hashText(seat, 0)))

/** One object for the same names: a key as text takes longer to build and hash than all else that is counted. */
class KnownNames {
  private readonly places = new Array<Names | null>(namePlaces).fill(null)

  /** If there is no place, others are forgotten. Their next bid has another object, and so another row. */
  namesOf({ publisher, domain, seat = '' }: DecisionRecord): Names {
    const { places } = this
    const hash = hashOf(publisher, domain, seat)
    let free = hash & (namePlaces - 1)
    for (let tried = 0; tried < tries; tried++) {
      const place = (hash + tried) & (namePlaces - 1)
      const names = places[place]!
      if (names === null) {
        free = place
        break
      }
      if (names.publisher === publisher && names.domain === domain && names.seat === seat)
        return names
    }
    const made = { publisher, domain, seat }
    places[free] = made
    return made
  }
}

const sums = <Key>(
  supplier: string,
  { group, bids, inSum, outSum }: Omit<BidSum<Key>, 'supplier'>,
) => {
  const { nthHour, mode, arm, via } = group
  return {
    ...{ hour: nthHour * hour, supplier, mode, arm, via },
    ...{ bids, in_sum: inSum, out_sum: outSum },
  }
}

const seatRow = (supplier: string, sum: Omit<BidSum<Names>, 'supplier'>): SeatRow => {
  const { publisher, domain, seat } = sum.group.key
  return {
    ...sums(supplier, sum),
    publisher: storable(publisher),
    domain: storable(domain),
    seat: storable(seat),
  }
}

const facetsRow = (supplier: string, sum: BidSum<Facets>): FacetsRow => ({
  ...sums(supplier, sum),
  facets: sum.group.key,
})

/** The bids of one supplier. */
class SupplierBids implements BidObserver {
  private readonly supplier: number
  private readonly all: DecidedBids

  constructor(supplier: number, all: DecidedBids) {
    this.supplier = supplier
    this.all = all
  }

  decided(record: DecisionRecord, inBa: number, outBa: number): void {
    if (record.arm !== 'test') this.all.countBid(this.supplier, record, inBa, outBa)
  }
}

/** Counts the bids of a process. */
export class DecidedBids implements DecisionObserver {
  private readonly addRow: (row: SeatRow) => void
  private readonly addFacets: (row: FacetsRow) => void
  private readonly observers = new Map<string, SupplierBids>()
  /** Their ids, by number. */
  private readonly suppliers: string[] = []
  private readonly known = new KnownNames()
  private readonly byNames = new BidSums<Names>(mostByNames)
  private readonly byFacets = new BidSums<Facets>(mostByFacets)

  /** Both take ownership of a row. They may get several with one key. */
  constructor(addRow: (row: SeatRow) => void, addFacets: (row: FacetsRow) => void) {
    this.addRow = addRow
    this.addFacets = addFacets
  }

  observerOf(supplier: string): BidObserver {
    return getOrAdd(
      this.observers,
      supplier,
      () => new SupplierBids(this.suppliers.push(supplier) - 1, this),
    )
  }

  countBid(supplier: number, record: DecisionRecord, inBa: number, outBa: number): void {
    const names = this.known.namesOf(record)
    if (!this.byNames.count(supplier, names, record, inBa, outBa)) {
      const group = groupAlone(names, record)
      const alone = { group, bids: 1, inSum: summable(inBa), outSum: summable(outBa) }
      this.addRow(seatRow(record.supplier, alone))
    }
    const { facets } = record
    if (facets !== undefined) this.byFacets.count(supplier, facets, record, inBa, outBa)
  }

  /**
   * Takes sums by names, and hands on some rows at each step.
   *
   * @param most sums after which no further supplier's rows are taken, unless there are as many as are kept
   */
  drain(most = Number.POSITIVE_INFINITY): Generator<undefined, void> {
    return this.handOn(this.byNames.takeSums(most), seatRow, this.addRow, rowsAtOnce)
  }

  /** Takes all sums by facets, and hands on some rows at each step. */
  drainFacets(): Generator<undefined, void> {
    const taken = this.byFacets.takeSums(Number.POSITIVE_INFINITY)
    return this.handOn(taken, facetsRow, this.addFacets, facetsAtOnce)
  }

  /** @param atOnce rows of one step */
  private *handOn<Key, Row>(
    taken: Iterable<BidSum<Key>>,
    rowOf: (supplier: string, sum: BidSum<Key>) => Row,
    add: (row: Row) => void,
    atOnce: number,
  ): Generator<undefined, void> {
    let left = atOnce
    for (const sum of taken) {
      add(rowOf(this.suppliers[sum.supplier]!, sum))
      if (--left > 0) continue
      left = atOnce
      yield
    }
  }
}
