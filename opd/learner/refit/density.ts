/**
 * Fits the distribution of the lowest winning price of each placement by expectation-maximisation. A row shows that this price is
 * at most the price sent (won), or above it (lost). The prior is a Dirichlet distribution whose mean is the form.
 */
import { binCount, type Densities } from '../curve/price-density.ts'
import type { Form } from './form.ts'
import { binOf, estimate, placesOf, type Uses } from './places.ts'
import type { Rows } from './rows.ts'

/** The prior of a placement counts as much as so many rows. */
const strength = 20
/** Distributions must increase the log likelihood of a supplier's rows by more, or the form alone is used. */
const leastGain = 3
/** Rounds of expectation-maximisation, which converges slowly: of rows that predict others, and of all rows. */
const [roundsOfHalf, rounds] = [80, 300]

/**
 * The suppliers whose rows distributions predict better than the form alone. `uses`: the rows that the form and the distributions
 * are fitted to; the others are predicted. The form alone would always be best for rows that it was fitted to.
 */
export function spikySuppliers(rows: Rows, form: Form, uses: Uses): Set<number> {
  const gains = new Map<number, number>()
  for (const place of placesOf(rows, form)) {
    const found = estimate(rows, place, strength, roundsOfHalf, uses)
    let gain = gains.get(place.supplier) ?? 0
    for (const row of place.rows) {
      if (uses(row)) continue
      form.loadRow(row)
      const base = form.wins(rows.lnPrice[row]!)
      const below = found.below[binOf(place, rows.lnPrice[row]!)]!
      const both = (strength * base + below) / (strength + found.total)
      gain += logLikelihood(rows, row, both) - logLikelihood(rows, row, base)
    }
    gains.set(place.supplier, gain)
  }
  return new Set([...gains].flatMap(([supplier, gain]) => (gain > leastGain ? [supplier] : [])))
}

function logLikelihood(rows: Rows, row: number, w: number): number {
  const known = Math.max(1e-3, Math.min(1 - 1e-3, w))
  return rows.weight[row]! * Math.log(rows.won[row] === 1 ? known : 1 - known)
}

/** The distributions of the placements of these suppliers. */
export function fitDensities(rows: Rows, form: Form, suppliers: ReadonlySet<number>): Densities {
  const places = placesOf(rows, form).filter(({ supplier }) => suppliers.has(supplier))
  const formShares = new Float32Array(places.length)
  const cumulative = new Float32Array(places.length * binCount)
  for (const [n, place] of places.entries()) {
    const { below, total } = estimate(rows, place, strength, rounds, () => true)
    formShares[n] = strength / (strength + total)
    for (let bin = 0; bin < binCount; bin++)
      cumulative[n * binCount + bin] = below[bin]! / (strength + total)
  }
  return {
    keys: Uint32Array.from(places, ({ key }) => key),
    firsts: Int32Array.from(places, ({ first }) => first),
    formShares,
    cumulative,
  }
}
