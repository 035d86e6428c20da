/**
 * The grid of prices, the same for every bid: each decade has 184 steps of 1.26 %, and each step has its roundest number as its
 * price. Competitors bid round numbers, and a price slightly below such a number loses all of those bids.
 */
const decade = 184
/** Fine steps of a coarse step, which is 5.1 %. */
export const coarse = 4
/** The exponent of the first decade. Prices are above 1e-9 CPM, so no tick is negative. */
const lowestDecade = -12

const sizes = [5, 2.5, 1, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005]

/** The roundest number in [low, high). */
function roundest(low: number, high: number): number {
  for (const size of sizes) {
    const first = Math.ceil(low / size - 1e-9) * size
    if (first < high - 1e-9) return first
  }
  return low
}

const tens = Float64Array.from({ length: 24 }, (_each, n) => 10 ** (n + lowestDecade))

const perLn = decade / Math.LN10
/**
 * The fine tick of a price. The tolerance keeps a price that was rounded in its tick.
 *
 * @param lnPrice logarithm of the price in CPM
 */
export const tickOf = (lnPrice: number): number => {
  const tick = Math.floor(lnPrice * perLn + 1e-6) - lowestDecade * decade
  return tick > 0 ? tick : 0
}

/**
 * ln of the price at which a fine tick begins.
 *
 * @param tick from 0 on
 */
export const lnOf = (tick: number): number => (tick + lowestDecade * decade) * (Math.LN10 / decade)

/** Tables by tick. */
export interface Grid {
  /** CPM, and its logarithm. */
  price: Float64Array
  ln: Float64Array
  /** Its fine tick. */
  fine: Int32Array
}

/** Every decade has the same steps, times its power of ten. */
function gridOf(steps: number): Grid {
  const mantissas = Float64Array.from({ length: steps }, (_each, n) =>
    roundest(10 ** (n / steps), 10 ** ((n + 1) / steps)),
  )
  const price = Float64Array.from(
    { length: tens.length * steps },
    (_each, n) => mantissas[n % steps]! * tens[Math.floor(n / steps)]!,
  )
  const ln = price.map(Math.log)
  return { price, ln, fine: Int32Array.from(ln, tickOf) }
}

export const fineGrid = gridOf(decade)
export const coarseGrid = gridOf(decade / coarse)
