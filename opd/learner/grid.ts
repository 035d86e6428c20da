/**
 * The prices that are tried, the same for every bid: decades of 184 steps of 1.26 %, each step stood for by the roundest
 * number in it. Spikes of real markets lie on round numbers, and a mass is won by the very price, not by a little less.
 */
export const decade = 184
/** Fine steps a coarse one has: 5.1 %. */
export const coarse = 4
const perDecade = decade / coarse
/** Ticks are counted from here, so that none is negative: 1e-9 CPM. */
const lowestDecade = -9

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
export const fineMantissas = table(decade)
export const coarseMantissas = table(perDecade)
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

export const finePrice = (tick: number): number => {
  const ten = Math.floor(tick / decade)
  return fineMantissas[tick - ten * decade]! * tens[ten]!
}

export const coarsePrice = (tick: number): number => {
  const ten = Math.floor(tick / perDecade)
  return coarseMantissas[tick - ten * perDecade]! * tens[ten]!
}

/** Units that bidders round to: 1, a half and a quarter of every power of ten, numbered upwards. */
const unitParts = [0.25, 0.5, 1]
export const unitIds = 24 * 3
export const unitSize = (id: number): number => {
  const ten = Math.floor(id / 3)
  return unitParts[id - 3 * ten]! * tens[ten]!
}
/** The largest unit that a price may be rounded by: not above twice the price. */
export function largestUnit(price: number): number {
  const ten = Math.floor(Math.log10(price) + 1e-9) - lowestDecade
  for (let id = Math.min(unitIds - 1, 3 * (ten + 1) + 2); id > 0; id--)
    if (unitSize(id) <= 2 * price) return id
  return 0
}
/** Units below that matter: five of them reach down to a twentieth or less. */
export const unitsSeen = 5

/** How far, in ln price, rounding moves the border: of bidders who round to `unit`, `price` beats all up to e^this of it. */
export const roundedBy = (price: number, unit: number): number =>
  Math.log(((Math.floor(price / unit + 1e-6) + 0.5) * unit) / price)
