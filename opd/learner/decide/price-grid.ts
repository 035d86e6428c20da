/**
 * The prices that are tried, the same for every bid: decades of 184 steps of 1.26 %, each step stood for by the roundest
 * number in it. Spikes of real markets lie on round numbers, and a mass is won by the very price, not by a little less.
 */
const decade = 184
/** Fine steps a coarse one has: 5.1 %. */
export const coarse = 4
const perDecade = decade / coarse
/** Ticks and units are counted from here, so that none is negative: prices are above 1e-9 CPM, units looked at above 1e-12. */
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

const table = (steps: number) =>
  Float64Array.from({ length: steps }, (_each, n) =>
    roundest(10 ** (n / steps), 10 ** ((n + 1) / steps)),
  )
const fineMantissas = table(decade)
const coarseMantissas = table(perDecade)
const tens = Float64Array.from({ length: 24 }, (_each, n) => 10 ** (n + lowestDecade))

const perLn = decade / Math.LN10
/** The fine tick that a price lies in, from its logarithm; a price that was rounded on its way stays in its own. */
export const tickOf = (lnPrice: number): number => {
  const tick = Math.floor(lnPrice * perLn + 1e-6) - lowestDecade * decade
  return tick > 0 ? tick : 0
}

/** Steps of 1.26 % below in. */
export const stepsBelow = (lnF: number): number => {
  const steps = Math.floor(-lnF * perLn + 1e-6)
  return steps > 0 ? steps : 0
}

/** Units that bidders round to: 1, a half and a quarter of every power of ten, numbered upwards. */
const unitParts = [0.25, 0.5, 1]
/** Those that a price is asked about are never below: four smaller ones are looked at too. */
const leastUnit = 4
export const unitIds = 24 * 3
const sizesOf = Float64Array.from(
  { length: unitIds },
  (_each, id) => unitParts[id % 3]! * tens[Math.floor(id / 3)]!,
)
const perUnit = sizesOf.map((size) => 1 / size)
/** The largest unit that a price may be rounded by: not above twice the price, whose logarithm is `ln`. */
export function largestUnit(price: number, ln = Math.log(price)): number {
  const ten = Math.floor(ln / Math.LN10 + 1e-9) - lowestDecade
  for (let id = Math.min(unitIds - 1, 3 * (ten + 1) + 2); id > leastUnit; id--)
    if (sizesOf[id]! <= 2 * price) return id
  return leastUnit
}
/** Units below that matter: five of them reach down to a twentieth or less. */
export const unitsSeen = 5

/**
 * How far, in ln price, rounding moves the border: of bidders who round to the unit, `price` beats all up to e^this of it.
 * The logarithm by its series in (r - 1) / (r + 1): r is within [.5, 1.5], so it is off by 1e-5 at most.
 */
export function roundedBy(price: number, unit: number): number {
  const units = price * perUnit[unit]!
  const up = ((units + 1e-6) | 0) + 0.5
  const z = (up - units) / (up + units)
  const zz = z * z
  return 2 * z * (1 + zz * (1 / 3 + zz * (1 / 5 + zz / 7)))
}

/** Prices by tick, with what the curve asks of each: tables, a look-up is all that a price costs. */
export interface Grid {
  /** CPM, and its logarithm. */
  price: Float64Array
  ln: Float64Array
  /** Its fine tick. */
  fine: Int32Array
  /** The largest unit that it may be rounded by, and how far that and the ones below move the border, from `move` on. */
  unit: Int32Array
  move: Int32Array
  moves: Float64Array
}

/** What is the same in every decade but for its power of ten. */
function gridOf(mantissas: Float64Array): Grid {
  const steps = mantissas.length
  const price = Float64Array.from(
    { length: tens.length * steps },
    (_each, n) => mantissas[n % steps]! * tens[Math.floor(n / steps)]!,
  )
  const unit = mantissas.map((at) => largestUnit(at) + 3 * lowestDecade)
  const moves = new Float64Array(steps * unitsSeen)
  mantissas.forEach((at, n) => {
    for (let by = 0; by < unitsSeen; by++)
      moves[n * unitsSeen + by] = roundedBy(at, unit[n]! - 3 * lowestDecade - by)
  })
  return {
    price,
    ln: price.map(Math.log),
    fine: Int32Array.from(price, (at) => tickOf(Math.log(at))),
    unit: Int32Array.from(price, (_each, n) => unit[n % steps]! + 3 * Math.floor(n / steps)),
    move: Int32Array.from(price, (_each, n) => (n % steps) * unitsSeen),
    moves,
  }
}

export const fineGrid = gridOf(fineMantissas)
export const coarseGrid = gridOf(coarseMantissas)
