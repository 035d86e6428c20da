/** Distributions that notice delays may have, by bins of age. */

/** Edges of the bins of age: 0, 25 ms, then each a quarter more, up to 3.5 h. The last bin has no upper edge. */
export const [first, ratio, bins] = [25, 1.25, 60]
export const edges = Float64Array.from({ length: bins }, (_each, n) =>
  n === 0 ? 0 : first * ratio ** (n - 1),
)
export const middles = edges.map((edge, n) => (n === 0 ? first / 2 : edge * Math.sqrt(ratio)))
export const perLn = 1 / Math.log(ratio)
export const binOf = (age: number) =>
  age < first ? 0 : Math.min(bins - 1, 1 + Math.floor(Math.log(age / first) * perLn))

/** The standard normal distribution (Abramowitz and Stegun 7.1.26). */
function normalBelow(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x) * Math.SQRT1_2)
  const poly =
    t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const half = 0.5 * poly * Math.exp(-0.5 * x * x)
  return x > 0 ? 1 - half : half
}
/** Log-normal and Weibull distributions, by x = ln(age / median). */
const curves: ((x: number) => number)[] = [
  ...[0.4, 0.8, 1.2, 1.8].map((sigma) => (x: number) => normalBelow(x / sigma)),
  ...[0.6, 1, 1.8].map((k) => (x: number) => 1 - 0.5 ** Math.exp(k * x)),
]
/** Medians in milliseconds. The prior prefers seconds to minutes. */
const medians = Array.from({ length: 24 }, (_each, n) => 100 * 1.6 ** n)
const [usualMedian, usualSpread] = [8000, 1.5]

interface Shape {
  /** Logarithm of the prior probability. */
  prior: number
  /** The share of notices in each bin. */
  shares: Float64Array
  /** The share by the end of each bin. */
  until: Float64Array
  /** Of the notices by the end of a bin, ln of the share in that bin (`late`), and of the others (`early`). */
  late: Float64Array
  early: Float64Array
}
function shapeOf(curve: (x: number) => number, median: number): Shape {
  const to = edges.map((_edge, n) =>
    n === bins - 1 ? 1 : Math.max(1e-12, curve(Math.log(edges[n + 1]! / median))),
  )
  const shares = to.map((share, n) => Math.max(1e-12, share - (n === 0 ? 0 : to[n - 1]!)))
  const late = to.map((share, n) => Math.min(1 - 1e-6, Math.max(1e-9, shares[n]! / share)))
  const off = Math.log(median / usualMedian) / usualSpread
  return {
    prior: -0.5 * off * off,
    shares,
    until: to,
    late: late.map(Math.log),
    early: late.map((share) => Math.log(1 - share)),
  }
}
export const shapes = medians.flatMap((median) => curves.map((curve) => shapeOf(curve, median)))
