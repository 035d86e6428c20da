/** Seeded random numbers, for everything in this bench. */
import { normal } from '../../opd/base/random.ts'

export interface Source {
  /** Uniform in [0, 1). */
  uniform(): number
  normal(): number
  /** A whole number below `n`. */
  below(n: number): number
  pick<T>(list: readonly T[]): T
  /** An independent source of the same seed. */
  fork(name: number): Source
}

/** sfc32: small, fast, and long enough for any run here. */
export function source(seed: number): Source {
  let a = (seed ^ 0x9e3779b9) | 0
  let b = Math.imul(seed, 0x85ebca6b) | 0
  let c = 0x243f6a88 ^ seed
  let counter = 1
  const next = () => {
    const t = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 2 ** 32
  }
  for (let n = 0; n < 12; n++) next()
  return {
    uniform: next,
    normal: () => normal(next),
    below: (n) => Math.floor(next() * n),
    pick: (list) => list[Math.floor(next() * list.length)]!,
    fork: (name) => source((Math.imul(seed, 0x27d4eb2f) ^ Math.imul(name + 1, 0x165667b1)) >>> 0),
  }
}

/** Cumulative shares of Zipf traffic over `n` ranks. */
export function zipf(n: number, exponent: number): Float64Array {
  const shares = Float64Array.from({ length: n }, (_each, rank) => (rank + 1) ** -exponent)
  const total = shares.reduce((sum, share) => sum + share, 0)
  let sum = 0
  return shares.map((share) => {
    sum += share / total
    return sum
  })
}

/** How many of the sorted values are below `x`; or, with `same`, at most `x`. */
export function countBelow(sorted: Float64Array, x: number, same = false): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! < x || (same && sorted[middle] === x)) low = middle + 1
    else high = middle
  }
  return low
}

/** The rank that a uniform number falls on. */
export const rankOf = (shares: Float64Array, u: number): number =>
  Math.min(shares.length - 1, countBelow(shares, u))
