/** Small readers from which the shapes of a BidRequest are made. */

import { listOf, objectOf, type Read, type Scanner, Shape } from '../json/scanner.ts'
import { malformed } from '../json/syntax.ts'
import type { DurationFloor, DurationFloors, Floor } from './facts.ts'

type Leaf = Scanner['value']

/** Reads a value and hands a leaf over; objects and arrays are `undefined`. */
export const leaf =
  <T>(take: (into: T, value: Leaf, text: string) => void): Read<T> =>
  (scan, at, into) => {
    const end = scan.read(at)
    if (end !== malformed)
      take(into, scan.value, typeof scan.value === 'number' ? scan.text.slice(at, end) : '')
    return end
  }

/** A text that says something. */
export const textOf = (value: Leaf): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A numeral in quotes is still meant as a number; anything else is none. */
export const numberOf = (value: Leaf): number | undefined => {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  return Number.isNaN(number) ? undefined : number
}

/** A negative floor, or one that is no number, is none; one beyond all numbers is above every price. */
const amountOf = (value: Leaf): number => {
  const amount = numberOf(value)
  return amount !== undefined && amount > 0 ? Math.min(amount, Number.MAX_VALUE) : 0
}

interface Doubtful {
  ambiguous: boolean
}

export const doubt = (into: Doubtful) => {
  into.ambiguous = true
}

/** `bidfloor` and `bidfloorcur` of an imp or a deal: each from its own currency, USD by default, none inherited. */
export const floorMembers = {
  bidfloor: leaf<{ floor: Floor }>(({ floor }, value, text) => {
    floor.amount = amountOf(value)
    floor.text = floor.amount === Number.MAX_VALUE ? '' : text
  }),
  bidfloorcur: leaf<{ floor: Floor }>(({ floor }, value) => {
    if (value === null || value === '') floor.currency = 'USD'
    else floor.currency = typeof value === 'string' ? value.toUpperCase() : null
  }),
}

interface Range extends DurationFloor {
  owner: Doubtful
}

const rangeShape = new Shape<Range>(
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
  (range) => doubt(range.owner),
)

/** Each bid of an answer looks at all of them; more than this is no floor that anyone means. */
const mostRanges = 200

/** `owner`: what becomes ambiguous with it. */
export const durationMembers = <T extends DurationFloors>(owner: (into: T) => Doubtful) => {
  const readRange: Read<T> = (scan, at, into) => {
    if (into.ranges.length === mostRanges) {
      doubt(owner(into))
      return scan.skip(at)
    }
    const range = { from: 0, to: Number.POSITIVE_INFINITY, amount: 0, owner: owner(into) }
    into.ranges.push(range)
    return objectOf(scan, at, rangeShape, range)
  }
  const mincpmpersec: Read<T> = leaf((into, value) => {
    into.perSecond = amountOf(value)
  })
  const durfloors: Read<T> = (scan, at, into) => listOf(scan, at, readRange, into)
  return { mincpmpersec, durfloors }
}

/** An object that may be missing: `null` is as if it were not there. */
export const isNull = (scan: Scanner, at: number) => scan.text.charCodeAt(at) === 110
