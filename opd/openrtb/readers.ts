/** Readers that the key tables of a BidRequest share. */
import { KeyTable, type Leaf, type Read } from '../json/scanner.ts'
import type { DurationFloor, DurationFloors, Floor, MaybeAmbiguous } from './facts.ts'

/** A string that is not empty. */
export const textOf = (value: Leaf): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A number, or a string that contains one. */
export const numberOf = (value: Leaf): number | undefined => {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  return Number.isNaN(number) ? undefined : number
}

/** A flag of OpenRTB: 1, or true. */
export const flagOf = (value: Leaf): boolean => value === true || numberOf(value) === 1

/** A currency, USD by default; null: of a wrong type. */
export const currencyOf = (value: Leaf): string | null => {
  if (value === null || value === '') return 'USD'
  return typeof value === 'string' ? value.toUpperCase() : null
}

/** A floor that is negative or not a number counts as 0. An infinite floor is above every price. */
const amountOf = (value: Leaf): number => {
  const amount = numberOf(value)
  return amount !== undefined && amount > 0 ? Math.min(amount, Number.MAX_VALUE) : 0
}

export const markAmbiguous = (into: MaybeAmbiguous) => {
  into.ambiguous = true
}

/** `bidfloor` and `bidfloorcur` of an imp or a deal. A deal does not inherit the currency of its imp. */
export const floorMembers = {
  bidfloor: (scan, { floor }) => {
    const value = scan.leaf()
    floor.amount = amountOf(value)
    const isExact = typeof value === 'number' && floor.amount !== Number.MAX_VALUE
    floor.text = isExact ? scan.source : ''
  },
  bidfloorcur: (scan, { floor }) => {
    floor.currency = currencyOf(scan.leaf())
  },
} satisfies Record<string, Read<{ floor: Floor }>>

interface Range extends DurationFloor {
  floors: DurationFloors
}

const rangeKeys = new KeyTable<Range>(
  {
    mindur: (scan, range) => {
      range.from = numberOf(scan.leaf()) ?? 0
    },
    maxdur: (scan, range) => {
      range.to = numberOf(scan.leaf()) ?? Number.POSITIVE_INFINITY
    },
    bidfloor: (scan, range) => {
      range.amount = amountOf(scan.leaf())
    },
  },
  ({ floors }) => markAmbiguous(floors),
)

/** Each bid is compared with all ranges, so their number is bounded. */
export const maxRanges = 200

const readRange: Read<DurationFloors> = (scan, floors) => {
  if (floors.ranges.length === maxRanges) return markAmbiguous(floors)
  const range = { from: 0, to: Number.POSITIVE_INFINITY, amount: 0, floors }
  floors.ranges.push(range)
  scan.object(rangeKeys, range)
}

export const durationMembers = {
  mincpmpersec: (scan, floors) => {
    floors.perSecond = amountOf(scan.leaf())
  },
  durfloors: (scan, floors) => scan.array(readRange, floors),
} satisfies Record<string, Read<DurationFloors>>
