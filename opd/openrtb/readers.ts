/** Readers that the key tables of a BidRequest share. */
import { KeyTable, type Read, readArray, readObject, type Scanner } from '../json/scanner.ts'
import { malformed } from '../json/syntax.ts'
import type { DurationFloor, DurationFloors, Floor, MaybeAmbiguous } from './facts.ts'

type Leaf = Scanner['value']

/** Reads a value and passes it to `take`; an object or an array is `undefined`. */
export const leaf =
  <T>(take: (into: T, value: Leaf) => void): Read<T> =>
  (scan, at, into) => {
    const end = scan.read(at)
    if (end !== malformed) take(into, scan.value)
    return end
  }

/** A string that is not empty. */
export const textOf = (value: Leaf): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A number, or a string that contains one. */
export const numberOf = (value: Leaf): number | undefined => {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  return Number.isNaN(number) ? undefined : number
}

/** A floor that is negative or not a number counts as 0. An infinite floor is above every price. */
const amountOf = (value: Leaf): number => {
  const amount = numberOf(value)
  return amount !== undefined && amount > 0 ? Math.min(amount, Number.MAX_VALUE) : 0
}

export const markAmbiguous = (into: MaybeAmbiguous) => {
  into.ambiguous = true
}

/** `bidfloor` and `bidfloorcur` of an imp or a deal. The default currency is USD; a deal does not inherit the one of its imp. */
export const floorMembers = {
  bidfloor: ((scan, at, { floor }) => {
    const end = scan.read(at)
    if (end === malformed) return end
    const { value } = scan
    floor.amount = amountOf(value)
    const isExact = typeof value === 'number' && floor.amount !== Number.MAX_VALUE
    floor.text = isExact ? scan.text.slice(at, end) : ''
    return end
  }) satisfies Read<{ floor: Floor }>,
  bidfloorcur: leaf<{ floor: Floor }>(({ floor }, value) => {
    if (value === null || value === '') floor.currency = 'USD'
    else floor.currency = typeof value === 'string' ? value.toUpperCase() : null
  }),
}

interface Range extends DurationFloor {
  owner: MaybeAmbiguous
}

const rangeKeys = new KeyTable<Range>(
  {
    mindur: leaf((range, value) => {
      range.from = numberOf(value) ?? 0
    }),
    maxdur: leaf((range, value) => {
      range.to = numberOf(value) ?? Number.POSITIVE_INFINITY
    }),
    bidfloor: leaf((range, value) => {
      range.amount = amountOf(value)
    }),
  },
  (range) => markAmbiguous(range.owner),
)

/** Each bid is compared with all ranges, so their number is bounded. */
const maxRanges = 200

/** `owner` returns the object that becomes ambiguous with a range. */
export const durationMembers = <T extends DurationFloors>(owner: (into: T) => MaybeAmbiguous) => {
  const readRange: Read<T> = (scan, at, into) => {
    if (into.ranges.length === maxRanges) {
      markAmbiguous(owner(into))
      return scan.skip(at)
    }
    const range = { from: 0, to: Number.POSITIVE_INFINITY, amount: 0, owner: owner(into) }
    into.ranges.push(range)
    return readObject(scan, at, rangeKeys, range)
  }
  const mincpmpersec: Read<T> = leaf((into, value) => {
    into.perSecond = amountOf(value)
  })
  const durfloors: Read<T> = (scan, at, into) => readArray(scan, at, readRange, into)
  return { mincpmpersec, durfloors }
}

/** `null` counts as absent. */
export const isNull = (scan: Scanner, at: number) => scan.text.charCodeAt(at) === 110
