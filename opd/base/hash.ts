/**
 * 32-bit hashes, equal on every node and in every version: the weights of the model are found by them. They are FNV-1a
 * with a final mix.
 */

/**
 * FNV-1a, before any final mix.
 *
 * @param seed 32 bits; the result has 32 with a sign
 */
export function fnv1a(text: string, seed: number): number {
  let value = seed
  for (let index = 0; index < text.length; index++)
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  return value
}

/**
 * FNV-1a of the UTF-16 code units, with the final mix.
 *
 * @param seed 32 bits; other seeds give independent hashes
 * @returns 32 bits, not negative
 */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let value = fnv1a(text, seed)
  value ^= value >>> 15
  value = Math.imul(value, 0x2c1b3c6d)
  return (value ^ (value >>> 12)) >>> 0
}

/**
 * Combines two hashes; their order matters.
 *
 * @param a 32 bits, as `b`; the result is 0 to 2^32 - 1
 */
export const mix = (a: number, b: number) => {
  let value = Math.imul(a ^ Math.imul(b, 0x9e3779b1), 0x85ebca6b)
  value ^= value >>> 13
  return Math.imul(value, 0xc2b2ae35) >>> 0
}

/**
 * Hashes a text with a secret seed to a number in [0, 1), by two 32-bit multiply-xor hashes of which 53 bits are used. It is
 * equal on all nodes, so that an auction is within the share on every node, or on none.
 *
 * @param seed 32 bits, secret: a caller that knew it could choose auctions within the share
 */
export function unitHash(text: string, seed: number): number {
  let a = 0xdeadbeef ^ seed
  let b = 0x41c6ce57 ^ seed
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    a = Math.imul(a ^ code, 2654435761)
    b = Math.imul(b ^ code, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return ((b >>> 0) * 2 ** 21 + ((a >>> 0) & 0x1fffff)) / 2 ** 53
}
