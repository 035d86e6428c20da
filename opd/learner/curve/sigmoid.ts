/** The logistic function from a table: linear between steps of 1/64, off by less than 3e-6; a third of Math.exp's time. */
const reach = 16
const perUnit = 64
/** Of 32 bits, 8 KiB: it shares the innermost cache with the weights of a bid. */
const table = Float32Array.from(
  { length: 2 * reach * perUnit + 2 },
  (_each, n) => 1 / (1 + Math.exp(reach - n / perUnit)),
)

export function sigmoid(x: number): number {
  if (!(x > -reach)) return table[0]!
  if (x >= reach) return table[2 * reach * perUnit]!
  const at = (x + reach) * perUnit
  const step = at | 0
  const low = table[step]!
  return low + (at - step) * (table[step + 1]! - low)
}
