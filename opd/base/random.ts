export type Random = () => number

/**
 * mulberry32, a seeded random generator: uniform in [0, 1).
 *
 * @param seed 32 bits; equal seeds give equal sequences
 */
export function mulberry32(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ (state >>> 15), state | 1)
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61)
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32
  }
}

/**
 * A standard normal number (Box-Muller).
 *
 * @param random of 0 up to 1, exclusive; called twice
 */
export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

/**
 * One of the values, each with the same probability.
 *
 * @param values at least one
 */
export function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!
}
