/**
 * Sums of bids in one table of numbers for all suppliers. With thousands of suppliers nothing that belongs to one of them is in the
 * caches of the processor, and an object that is kept for one lives long enough to be copied by the garbage collector. So the sums of
 * a supplier and a group of bids are four numbers side by side, found by both.
 */
import { mix } from '../../opd/base/hash.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { hour } from './hour.ts'

/** The bids of one hour, mode, arm and via with the same names, or facets: of whatever supplier. */
export interface Group<Key> {
  readonly key: Key
  readonly nthHour: number
  readonly mode: string
  readonly arm: string
  readonly via: string
  /** Its index among the groups of the table. */
  readonly index: number
  /** Another one with the same key. */
  readonly next: Group<Key> | null
}

/**
 * The group of a bid, in no table.
 *
 * @param key what its bids have in common besides
 */
export const groupAlone = <Key>(key: Key, record: DecisionRecord): Group<Key> =>
  newGroup(key, record, 0, null)

const newGroup = <Key>(
  key: Key,
  record: DecisionRecord,
  index: number,
  next: Group<Key> | null,
): Group<Key> => {
  const { mode, arm, via } = record
  return { key, nthHour: nthHourOf(record), mode, arm, via, index, next }
}

const nthHourOf = ({ decidedAt }: DecisionRecord) => Math.floor(decidedAt / hour)

/** Numbers of a place. `id` 0: it is free. */
const nth = { id: 0, bids: 1, inSum: 2, outSum: 3 } as const
const perPlace = 4
/** Of a table, at most. */
const mostGroups = 2 ** 20
/** As an id: 1 and more. */
const idOf = (supplier: number, group: number) => supplier * mostGroups + group + 1
const supplierOf = (id: number) => Math.floor((id - 1) / mostGroups)
const groupOf = (id: number) => (id - 1) % mostGroups
const fewestPlaces = 64
/** Instead of a place. */
const none = -1

/** What is handed on of a supplier and a group. */
export interface BidSum<Key> {
  readonly supplier: number
  readonly group: Group<Key>
  readonly bids: number
  /** Sums of prices, CPM in the base currency. */
  readonly inSum: number
  readonly outSum: number
}

/** @param numbers of places, among them free ones and those without bids */
function* sumsOf<Key>(
  numbers: Float64Array,
  groups: readonly Group<Key>[],
): Generator<BidSum<Key>, void> {
  for (let start = 0; start < numbers.length; start += perPlace) {
    const bids = numbers[start + nth.bids]!
    if (bids === 0) continue
    const id = numbers[start + nth.id]!
    yield {
      supplier: supplierOf(id),
      group: groups[groupOf(id)]!,
      bids,
      inSum: numbers[start + nth.inSum]!,
      outSum: numbers[start + nth.outSum]!,
    }
  }
}

/**
 * A supplier and a group have a place from their first bid on. When their bids are taken they keep it, without bids, until the table
 * is made anew. A place is that of the hash, or one of the next.
 */
class SumsTable<Key> {
  /** Places with bids. */
  size = 0
  /** Places that are not free. */
  private used = 0
  private readonly most: number
  private places = fewestPlaces
  private numbers = new Float64Array(0)
  /** The next place with bids of the same supplier. */
  private nextPlace = new Int32Array(0)
  /** By supplier: the first place with bids. */
  private readonly firstPlace: number[] = []
  /** Suppliers with bids, those first that have waited longest. */
  private readonly waiting: number[] = []
  private readonly groups: Group<Key>[] = []
  /** One of the groups with a key. */
  private readonly byKey = new Map<Key, Group<Key>>()

  /**
   * @param most places with bids
   * @param expected places with bids that are likely
   */
  constructor(most: number, expected: number) {
    this.most = most
    this.allocate(expected)
  }

  /** Three places or more for each that is expected: half of the places are in use at most. */
  private allocate(expected: number): void {
    this.places = fewestPlaces
    while (this.places < 3 * expected) this.places *= 2
    this.numbers = new Float64Array(this.places * perPlace)
    this.nextPlace = new Int32Array(this.places)
  }

  /** False: there are as many sums as there may be, and these bids have none. */
  count(supplier: number, key: Key, record: DecisionRecord, inBa: number, outBa: number): boolean {
    const group = this.groupOf(key, record)
    const place = group === null ? none : this.placeOf(supplier, group.index)
    if (place === none) return false
    const { numbers } = this
    const start = place * perPlace
    if (numbers[start + nth.bids] === 0) this.countFirst(supplier, place)
    numbers[start + nth.bids]!++
    numbers[start + nth.inSum]! += summable(inBa)
    numbers[start + nth.outSum]! += summable(outBa)
    return true
  }

  private groupOf(key: Key, record: DecisionRecord): Group<Key> | null {
    const { mode, arm, via } = record
    const nthHour = nthHourOf(record)
    const newest = this.byKey.get(key) ?? null
    for (let group = newest; group !== null; group = group.next)
      if (
        group.arm === arm &&
        group.via === via &&
        group.mode === mode &&
        group.nthHour === nthHour
      )
        return group
    const { groups } = this
    if (groups.length >= this.most) return null
    const made = newGroup(key, record, groups.length, newest)
    groups.push(made)
    this.byKey.set(key, made)
    return made
  }

  private placeOf(supplier: number, group: number): number {
    const place = this.find(supplier, group)
    if (this.numbers[place * perPlace + nth.id] !== 0) return place
    return this.size < this.most ? this.occupy(supplier, group, place) : none
  }

  private occupy(supplier: number, group: number, free: number): number {
    let place = free
    if (2 * this.used >= this.places) {
      this.renew()
      place = this.find(supplier, group)
    }
    this.numbers[place * perPlace + nth.id] = idOf(supplier, group)
    this.used++
    return place
  }

  /** The place of a supplier and a group, or the free one that would be theirs. */
  private find(supplier: number, group: number): number {
    const { numbers, places } = this
    const id = idOf(supplier, group)
    let place = mix(supplier, group) & (places - 1)
    for (;;) {
      const other = numbers[place * perPlace + nth.id]
      if (other === id || other === 0) return place
      place = (place + 1) & (places - 1)
    }
  }

  /** Places without bids are forgotten, and there are more places if that leaves too few. It takes 3 ms with 50,000 sums. */
  private renew(): void {
    const { numbers, waiting, firstPlace } = this
    this.allocate(this.size + this.size / 3)
    this.used = 0
    for (const supplier of waiting) firstPlace[supplier] = none
    for (let from = 0; from < numbers.length; from += perPlace) {
      if (numbers[from + nth.bids] === 0) continue
      const id = numbers[from + nth.id]!
      const place = this.find(supplierOf(id), groupOf(id))
      this.numbers.set(numbers.subarray(from, from + perPlace), place * perPlace)
      this.used++
      this.chain(supplierOf(id), place)
    }
  }

  private countFirst(supplier: number, place: number): void {
    this.size++
    if ((this.firstPlace[supplier] ?? none) === none) this.waiting.push(supplier)
    this.chain(supplier, place)
  }

  private chain(supplier: number, place: number): void {
    this.nextPlace[place] = this.firstPlace[supplier] ?? none
    this.firstPlace[supplier] = place
  }

  /** The table is not used any more. */
  all(): Generator<BidSum<Key>, void> {
    return sumsOf(this.numbers, this.groups)
  }

  /**
   * Takes the sums of whole suppliers.
   *
   * @param most sums after which those of no further supplier are taken
   */
  takeSums(most: number): Generator<BidSum<Key>, void> {
    const { waiting, firstPlace, nextPlace } = this
    const taken: number[] = []
    let suppliers = 0
    for (; suppliers < waiting.length && taken.length < most * perPlace; suppliers++) {
      const supplier = waiting[suppliers]!
      for (let place = firstPlace[supplier]!; place !== none; place = nextPlace[place]!) {
        this.moveTo(taken, place)
        this.size--
      }
      firstPlace[supplier] = none
    }
    waiting.splice(0, suppliers)
    return sumsOf(Float64Array.from(taken), this.groups)
  }

  private moveTo(taken: number[], place: number): void {
    const { numbers } = this
    const start = place * perPlace
    for (let index = 0; index < perPlace; index++) taken.push(numbers[start + index]!)
    numbers.fill(0, start + nth.bids, start + perPlace)
  }
}

/** The sums of bids by supplier and group. */
export class BidSums<Key> {
  private readonly most: number
  private table: SumsTable<Key>

  /** @param most sums that are kept */
  constructor(most: number) {
    this.most = most
    this.table = new SumsTable(most, 0)
  }

  /**
   * Counts a bid. False: there are as many sums as are kept, and none of them is that of this bid.
   *
   * @param supplier 0 or more
   * @param key what the bids of a group have in common besides hour, mode, arm and via; compared by identity
   * @param record of the bid
   * @param inBa CPM in the base currency, as `outBa`
   */
  count(supplier: number, key: Key, record: DecisionRecord, inBa: number, outBa: number): boolean {
    return this.table.count(supplier, key, record, inBa, outBa)
  }

  /**
   * Takes the sums of whole suppliers, those first that have waited longest: those that are there now, however slowly they are read.
   *
   * @param most sums after which those of no further supplier are taken, unless there are as many as are kept
   */
  takeSums(most: number): Generator<BidSum<Key>, void> {
    const { table } = this
    if (most < table.size && table.size < this.most) return table.takeSums(most)
    this.table = new SumsTable(this.most, table.size)
    return table.all()
  }
}
