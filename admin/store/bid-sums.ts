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
/** 36 KB. */
const fewestPlaces = 1024
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
 * A supplier and a group have a place from their first bid on. When their bids are taken they keep it, without bids. A place is that
 * of the hash, or one of the next.
 */
class SumsTable<Key> {
  /** Places with bids. */
  size = 0
  /** Places that are not free. */
  private used = 0
  private readonly places: number
  private readonly numbers: Float64Array
  /** The next place with bids of the same supplier. */
  private readonly nextPlace: Int32Array
  /** By supplier: the first place with bids. */
  private readonly firstPlace: number[] = []
  /** Suppliers with bids, those first that have waited longest. */
  private readonly waiting: number[] = []
  private readonly groups: Group<Key>[] = []
  /** One of the groups with a key. */
  private readonly byKey = new Map<Key, Group<Key>>()

  /** @param expected sums: it takes half as many again, or more, before it is full */
  constructor(expected: number) {
    let places = fewestPlaces
    while (places < 3 * expected) places *= 2
    this.places = places
    this.numbers = new Float64Array(places * perPlace)
    this.nextPlace = new Int32Array(places)
  }

  /** Half of the places are used: with more, bids would pass many others to reach theirs. */
  get isFull(): boolean {
    return 2 * this.used >= this.places
  }

  /** `none`: the supplier and the group of the bid have no place. */
  placeOf(supplier: number, key: Key, record: DecisionRecord): number {
    const group = this.groupOf(key, record)
    if (group === null) return none
    const place = this.find(supplier, group.index)
    return this.numbers[place * perPlace + nth.id] === 0 ? none : place
  }

  /** Gives the supplier and the group of the bid a place; they had none. */
  newPlace(supplier: number, key: Key, record: DecisionRecord): number {
    const group = this.groupOf(key, record) ?? this.addGroup(key, record)
    const place = this.find(supplier, group.index)
    this.numbers[place * perPlace + nth.id] = idOf(supplier, group.index)
    this.used++
    return place
  }

  addBid(supplier: number, place: number, inBa: number, outBa: number): void {
    const { numbers } = this
    const start = place * perPlace
    if (numbers[start + nth.bids] === 0) this.link(supplier, place)
    numbers[start + nth.bids]!++
    numbers[start + nth.inSum]! += summable(inBa)
    numbers[start + nth.outSum]! += summable(outBa)
  }

  private groupOf(key: Key, record: DecisionRecord): Group<Key> | null {
    const { mode, arm, via } = record
    const nthHour = nthHourOf(record)
    for (let group = this.byKey.get(key) ?? null; group !== null; group = group.next)
      if (
        group.arm === arm &&
        group.via === via &&
        group.mode === mode &&
        group.nthHour === nthHour
      )
        return group
    return null
  }

  private addGroup(key: Key, record: DecisionRecord): Group<Key> {
    const { groups, byKey } = this
    const made = newGroup(key, record, groups.length, byKey.get(key) ?? null)
    groups.push(made)
    byKey.set(key, made)
    return made
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

  private link(supplier: number, place: number): void {
    const { firstPlace } = this
    this.size++
    // No gaps: with them the array would be a table of hashes.
    while (firstPlace.length <= supplier) firstPlace.push(none)
    if (firstPlace[supplier] === none) this.waiting.push(supplier)
    this.nextPlace[place] = firstPlace[supplier]!
    firstPlace[supplier] = place
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

function* chained<T>(parts: readonly Iterable<T>[]): Generator<T, void> {
  for (const part of parts) yield* part
}

/** The sums of bids by supplier and group. */
export class BidSums<Key> {
  private readonly most: number
  /**
   * The newest is first, and gets each new sum. The others were full: to move 30,000 sums into a larger table would hold the event
   * loop for 5 to 20 ms.
   */
  private tables = [new SumsTable<Key>(0)]

  /** @param most sums that are kept */
  constructor(most: number) {
    this.most = most
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
    const { tables } = this
    for (let index = 0; index < tables.length; index++) {
      const table = tables[index]!
      const place = table.placeOf(supplier, key, record)
      if (place === none) continue
      table.addBid(supplier, place, inBa, outBa)
      return true
    }
    const { size } = this
    if (size >= this.most) return false
    if (tables[0]!.isFull) tables.unshift(new SumsTable(2 * size))
    const newest = tables[0]!
    newest.addBid(supplier, newest.newPlace(supplier, key, record), inBa, outBa)
    return true
  }

  private get size(): number {
    let size = 0
    for (const table of this.tables) size += table.size
    return size
  }

  /**
   * Takes the sums of whole suppliers, those first that have waited longest: those that are there now, however slowly they are read.
   *
   * @param most sums after which those of no further supplier are taken, unless there are as many as are kept
   */
  takeSums(most: number): Generator<BidSum<Key>, void> {
    const { size } = this
    const [newest, ...full] = this.tables as [SumsTable<Key>, ...SumsTable<Key>[]]
    const parts = full.reverse().map((table) => table.all())
    const left = most - (size - newest.size)
    if (left < newest.size && size < this.most) {
      parts.push(newest.takeSums(left))
      this.tables = [newest]
    } else {
      parts.push(newest.all())
      this.tables = [new SumsTable(size)]
    }
    return chained(parts)
  }
}
