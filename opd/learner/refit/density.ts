/**
 * The distribution of the lowest winning price by placement, by expectation-maximisation: a row says that it lies below the
 * price sent (won) or above (lost). Its prior is a Dirichlet whose mean is the parametric form; how much that counts is
 * chosen for each supplier by what predicts rows that were left out.
 */
import { binCount, type Densities, placementsMost } from '../curve/price-density.ts'
import { tickOf } from '../decide/price-grid.ts'
import type { Form } from './form.ts'
import type { Rows } from './rows.ts'

/** Rows that the form counts as much as; infinite: the form alone. */
const strengths = [Number.POSITIVE_INFINITY, 200, 60, 20]
const fewest = 30
/** Of expectation-maximisation: to choose the strength, and at last. Masses sharpen slowly. */
const [roundsTried, roundsLast] = [80, 300]
/** Rows of a placement whose forms make up the mean of its prior. */
const sampled = 24
const perTick = Math.LN10 / 184
const lowestTick = 12 * 184

interface Place {
  key: number
  supplier: number
  rows: number[]
  first: number
  /** Form's mean by bin, cumulative; the last bin holds all above. */
  base: Float64Array
}

export function fitDensities(rows: Rows, form: Form): Densities {
  const places = placesOf(rows, form)
  const strength = strengthsOf(rows, form, places)
  const kept = places.filter(({ supplier }) => Number.isFinite(strength.get(supplier)!))
  const found: Densities = {
    keys: Uint32Array.from(kept, ({ key }) => key),
    firsts: Int32Array.from(kept, ({ first }) => first),
    formShares: new Float32Array(kept.length),
    cumulative: new Float32Array(kept.length * binCount),
  }
  kept.forEach((place, at) => {
    const by = strength.get(place.supplier)!
    const { counts, total } = estimate(rows, place, by, roundsLast, () => true)
    found.formShares[at] = by / (by + total)
    let sum = 0
    for (let bin = 0; bin < binCount; bin++) {
      sum += counts[bin]! / (by + total)
      found.cumulative[at * binCount + bin] = sum
    }
  })
  return found
}

/** Placements by traffic, each with the range of its prices. */
function placesOf(rows: Rows, form: Form): Place[] {
  const groups = new Map<number, number[]>()
  for (let row = 0; row < rows.count; row++) {
    const key = rows.placement[row]!
    if (key === 0) continue
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [row])
    else group.push(row)
  }
  return [...groups]
    .filter(([, group]) => group.length >= fewest)
    .sort(([one, a], [other, b]) => b.length - a.length || one - other)
    .slice(0, placementsMost)
    .map(([key, group]) => {
      const highest = group.reduce((most, row) => Math.max(most, rows.lnIn[row]!), -100)
      const first = tickOf(highest) - binCount + 2
      const place = {
        key,
        supplier: rows.supplier[group[0]!]!,
        rows: group,
        first,
        base: new Float64Array(binCount),
      }
      const step = Math.max(1, Math.floor(group.length / sampled))
      let count = 0
      for (let n = group.length - 1; n >= 0; n -= step, count++) {
        form.loadRow(group[n]!)
        for (let bin = 0; bin < binCount; bin++)
          place.base[bin]! += form.wins((first + bin + 1 - lowestTick) * perTick)
      }
      for (let bin = 0; bin < binCount; bin++) place.base[bin]! /= count
      return place
    })
}

const binOf = (place: Place, lnPrice: number) =>
  Math.max(0, Math.min(binCount - 1, tickOf(lnPrice) - place.first))

/** Expected rows by bin, without the prior's; and of how many rows. */
function estimate(
  rows: Rows,
  place: Place,
  strength: number,
  rounds: number,
  uses: (row: number) => boolean,
): { counts: Float64Array; total: number } {
  const won = new Float64Array(binCount)
  const lost = new Float64Array(binCount)
  const exact = new Float64Array(binCount + 1)
  let total = 0
  for (const row of place.rows) {
    if (!uses(row)) continue
    const weight = rows.weight[row]!
    const bin = binOf(place, rows.lnPrice[row]!)
    total += weight
    const least = rows.lnLeast[row]!
    if (!Number.isNaN(least))
      exact[Math.max(0, Math.min(binCount, tickOf(least) - place.first))]! += weight
    else if (rows.won[row] === 1) won[bin]! += weight
    else lost[bin]! += weight
  }
  const { base } = place
  const mass = new Float64Array(binCount + 1)
  for (let bin = 0; bin <= binCount; bin++)
    mass[bin] = Math.max(1e-9, (bin < binCount ? base[bin]! : 1) - (bin > 0 ? base[bin - 1]! : 0))
  const prior = mass.slice()
  const counts = new Float64Array(binCount + 1)
  const above = new Float64Array(binCount + 1)
  for (let round = 0; round < rounds; round++) {
    // Of a win at a bin or above, and of a loss below: shares that each unit of mass takes.
    let sum = 0
    let below = 0
    for (let bin = 0; bin < binCount; bin++) {
      sum += mass[bin]!
      above[bin] = won[bin]! / sum
      counts[bin] = below
      below += lost[bin]! / Math.max(1e-9, 1 - sum)
    }
    counts[binCount] = below
    above[binCount] = 0
    let from = 0
    for (let bin = binCount; bin >= 0; bin--) {
      from += above[bin]!
      counts[bin] = exact[bin]! + mass[bin]! * (counts[bin]! + from)
    }
    for (let bin = 0; bin <= binCount; bin++)
      mass[bin] = (strength * prior[bin]! + counts[bin]!) / (strength + total)
  }
  return { counts, total }
}

/** By supplier: the strength that best predicts rows left out. */
function strengthsOf(rows: Rows, form: Form, places: readonly Place[]): Map<number, number> {
  const fits = new Map<number, Float64Array>()
  for (const place of places) {
    const fit = fits.get(place.supplier) ?? new Float64Array(strengths.length)
    fits.set(place.supplier, fit)
    const found = strengths.map((strength) =>
      Number.isFinite(strength)
        ? estimate(rows, place, strength, roundsTried, (row) => row % 3 !== 0)
        : null,
    )
    for (const each of found) {
      if (each === null) continue
      for (let bin = 1; bin < binCount; bin++) each.counts[bin]! += each.counts[bin - 1]!
    }
    for (const row of place.rows) {
      if (row % 3 !== 0) continue
      form.loadRow(row)
      const bin = binOf(place, rows.lnPrice[row]!)
      const base = form.wins(rows.lnPrice[row]!)
      found.forEach((each, n) => {
        const strength = strengths[n]!
        const w =
          each === null ? base : (strength * base + each.counts[bin]!) / (strength + each.total)
        const known = Math.max(1e-3, Math.min(1 - 1e-3, w))
        fit[n]! += rows.weight[row]! * Math.log(rows.won[row] === 1 ? known : 1 - known)
      })
    }
  }
  return new Map(
    [...fits].map(([supplier, fit]) => {
      let best = 0
      for (let n = 1; n < fit.length; n++) if (fit[n]! > fit[best]!) best = n
      return [supplier, strengths[best]!]
    }),
  )
}
