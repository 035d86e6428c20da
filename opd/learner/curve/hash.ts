/** Hashes of what a bid is known by: 32 bits, the same on every node and in every version, for weights lie where they say. */

export function hashText(text: string, seed = 0x811c9dc5): number {
  let value = seed
  for (let at = 0; at < text.length; at++)
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  value ^= value >>> 15
  value = Math.imul(value, 0x2c1b3c6d)
  return (value ^ (value >>> 12)) >>> 0
}

/** Of two hashes, one; the order counts. */
export const mix = (a: number, b: number) => {
  let value = Math.imul(a ^ Math.imul(b, 0x9e3779b1), 0x85ebca6b)
  value ^= value >>> 13
  return Math.imul(value, 0xc2b2ae35) >>> 0
}
