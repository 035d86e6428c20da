/** A reproducible source of randomness (mulberry32): uniform in (0, 1), near seeds far apart. */
export function source(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return (((z ^ (z >>> 14)) >>> 0) + 0.5) / 2 ** 32
  }
}
