/**
 * Decided bids, counted until they are handed on as rows: by hour, supplier, mode, arm and via, with the names of publisher,
 * domain and seat, and again with the facets.
 *
 * With thousands of suppliers nothing that belongs to one of them is in the caches of the processor. So names and facets are objects of
 * all suppliers, and a supplier has only its counts by them.
 */
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { hashText } from '../../opd/base/hash.ts'
import type { BidObserver, DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { Facets } from '../../opd/shared/facets.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { hour } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

export type SeatRow = WithSeat<DecidedRow>

/** The bids with some facets. */
export type FacetsRow = Omit<DecidedRow, 'publisher' | 'domain'> & { facets: Facets }

/** Places of the names of all suppliers, 10 MB: a power of two. Names are at the place of their hash, or at one of the next. */
const namePlaces = 32_768
const tries = 8
/** Names with counts, of all suppliers: 10 MB. Bids with further ones are handed on one by one. */
const maxNames = 32_000
/** Rows, and combinations of facets, that are handed on in one step: all at once would hold the event loop for 10 ms. */
const rowsAtOnce = 256
const facetsAtOnce = 100
/** Combinations of facets that are counted between two drains, 25 MB; those of more bids count as not known. */
const maxFacets = 100_000

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

/** The bids of one hour, mode, arm and via. */
class Counts {
  readonly nthHour: number
  readonly mode: string
  readonly arm: string
  readonly via: string
  /** Others with the same names, or facets. */
  readonly next: Counts | undefined
  bids = 0
  inSum = 0
  outSum = 0

  constructor(nthHour: number, { mode, arm, via }: DecisionRecord, next: Counts | undefined) {
    this.nthHour = nthHour
    this.mode = mode
    this.arm = arm
    this.via = via
    this.next = next
  }

  addBid(inBa: number, outBa: number): void {
    this.bids++
    this.inSum += summable(inBa)
    this.outSum += summable(outBa)
  }

  sums(supplier: string): Omit<FacetsRow, 'facets'> {
    const { nthHour, mode, arm, via, bids, inSum, outSum } = this
    return {
      ...{ hour: nthHour * hour, supplier, mode, arm, via },
      ...{ bids, in_sum: inSum, out_sum: outSum },
    }
  }
}

/** Of one supplier, by names or by facets. */
type CountsBy<Key> = Map<Key, Counts>
type Taken<Key> = [supplier: string, counts: CountsBy<Key>]

const nthHourOf = ({ decidedAt }: DecisionRecord) => Math.floor(decidedAt / hour)

/** The counts of the hour, mode, arm and via of a bid. */
function find(first: Counts | undefined, record: DecisionRecord): Counts | null {
  const { mode, arm, via } = record
  const nthHour = nthHourOf(record)
  for (let counts = first; counts !== undefined; counts = counts.next)
    if (
      counts.arm === arm &&
      counts.via === via &&
      counts.mode === mode &&
      counts.nthHour === nthHour
    )
      return counts
  return null
}

/** The counts of one supplier that are not handed on yet. */
interface Waiting<Key> {
  readonly supplier: string
  /** null: there are none. */
  counts: CountsBy<Key> | null
}

/** The counts of all suppliers by one kind of key. */
class Tally<Key> {
  /** Keys with counts, of all suppliers. */
  size = 0
  private readonly limit: number
  /** Those with counts; the first were handed on longest ago. */
  private readonly waiting = new Set<Waiting<Key>>()

  constructor(limit: number) {
    this.limit = limit
  }

  /** null: the bid is counted. Otherwise there are as many keys as are kept, and these are the counts of this bid alone. */
  count(
    bids: Waiting<Key>,
    key: Key,
    record: DecisionRecord,
    inBa: number,
    outBa: number,
  ): Counts | null {
    const first = bids.counts?.get(key)
    const known = find(first, record)
    if (known !== null) {
      known.addBid(inBa, outBa)
      return null
    }
    const made = new Counts(nthHourOf(record), record, first)
    made.addBid(inBa, outBa)
    if (first === undefined) {
      if (this.size >= this.limit) return made
      this.size++
    }
    if (bids.counts === null) {
      bids.counts = new Map()
      this.waiting.add(bids)
    }
    bids.counts.set(key, made)
    return null
  }

  /**
   * Takes the counts of whole suppliers.
   *
   * @param most keys after which no further supplier's counts are taken
   */
  takeCounts(most: number): Taken<Key>[] {
    const taken: Taken<Key>[] = []
    let left = most
    for (const bids of this.waiting) {
      if (left <= 0) break
      const { supplier, counts } = bids
      this.waiting.delete(bids)
      bids.counts = null
      this.size -= counts!.size
      left -= counts!.size
      taken.push([supplier, counts!])
    }
    return taken
  }
}

const seatRow = (supplier: string, names: Names, counts: Counts): SeatRow => ({
  ...counts.sums(supplier),
  publisher: storable(names.publisher),
  domain: storable(names.domain),
  seat: storable(names.seat),
})

const facetsRow = (supplier: string, facets: Facets, counts: Counts): FacetsRow => ({
  ...counts.sums(supplier),
  facets,
})

/** The bids of one supplier. */
class SupplierBids implements BidObserver {
  readonly byNames: Waiting<Names>
  readonly byFacets: Waiting<Facets>
  private readonly all: DecidedBids

  constructor(supplier: string, all: DecidedBids) {
    this.byNames = { supplier, counts: null }
    this.byFacets = { supplier, counts: null }
    this.all = all
  }

  decided(record: DecisionRecord, inBa: number, outBa: number): void {
    if (record.arm !== 'test') this.all.countBid(this, record, inBa, outBa)
  }
}

/** Counts the bids of a process. */
export class DecidedBids implements DecisionObserver {
  private readonly addRow: (row: SeatRow) => void
  private readonly addFacets: (row: FacetsRow) => void
  private readonly suppliers = new Map<string, SupplierBids>()
  private readonly known = new KnownNames()
  private readonly byNames = new Tally<Names>(maxNames)
  private readonly byFacets = new Tally<Facets>(maxFacets)

  /** Both take ownership of a row. They may get several with one key. */
  constructor(addRow: (row: SeatRow) => void, addFacets: (row: FacetsRow) => void) {
    this.addRow = addRow
    this.addFacets = addFacets
  }

  observerOf(supplier: string): BidObserver {
    return getOrAdd(this.suppliers, supplier, () => new SupplierBids(supplier, this))
  }

  countBid(bids: SupplierBids, record: DecisionRecord, inBa: number, outBa: number): void {
    const names = this.known.namesOf(record)
    const alone = this.byNames.count(bids.byNames, names, record, inBa, outBa)
    if (alone !== null) this.addRow(seatRow(record.supplier, names, alone))
    const { facets } = record
    if (facets !== undefined) this.byFacets.count(bids.byFacets, facets, record, inBa, outBa)
  }

  /**
   * Takes counts by names, and hands on some rows at each step.
   *
   * @param most names after which no further supplier's rows are taken, unless there are as many as are kept
   */
  drain(most = Number.POSITIVE_INFINITY): Generator<undefined, void> {
    const { byNames } = this
    const taken = byNames.takeCounts(byNames.size < maxNames ? most : Number.POSITIVE_INFINITY)
    return handOn(taken, seatRow, this.addRow, rowsAtOnce)
  }

  /** Takes all counts by facets, and hands on some rows at each step. */
  drainFacets(): Generator<undefined, void> {
    const taken = this.byFacets.takeCounts(Number.POSITIVE_INFINITY)
    return handOn(taken, facetsRow, this.addFacets, facetsAtOnce)
  }
}

/** @param atOnce rows of one step */
function* handOn<Key, Row>(
  taken: readonly Taken<Key>[],
  rowOf: (supplier: string, key: Key, counts: Counts) => Row,
  add: (row: Row) => void,
  atOnce: number,
): Generator<undefined, void> {
  let left = atOnce
  for (const [supplier, byKey] of taken)
    for (const [key, first] of byKey)
      for (let counts: Counts | undefined = first; counts !== undefined; counts = counts.next) {
        add(rowOf(supplier, key, counts))
        if (--left > 0) continue
        left = atOnce
        yield
      }
}
