/** Seeded randomness: a demo run can be repeated, and a bid meets the same competitor at any price. */

/** 32-bit FNV-1a with a final mix; equal texts and seeds give equal numbers on every machine. */
export function hash(text: string, seed = 0): number {
  let value = (0x811c9dc5 ^ seed) >>> 0
  for (let at = 0; at < text.length; at++)
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193) >>> 0
  value = Math.imul(value ^ (value >>> 16), 0x7feb352d) >>> 0
  value = Math.imul(value ^ (value >>> 15), 0x846ca68b) >>> 0
  return (value ^ (value >>> 16)) >>> 0
}

export type Random = () => number

/** A standard normal number (Box-Muller). */
export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

export function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!
}
