/** The rows of a placement, and the distribution of their lowest winning price. */
import { binCount, placementsMost } from '../curve/price-density.ts'
import { fineGrid, lnOf, tickOf } from '../decide/price-grid.ts'
import type { Form } from './form.ts'
import type { Rows } from './rows.ts'

/** A placement with fewer rows has no distribution. */
const fewest = 5
/** Rows of younger bids are left out: a bid without a notice may still be won. */
const grown = 0.9
/** The prior mean is the mean form of so many rows of a placement. */
const sampled = 24
/** Lower bound of the mass of a bin, and of the mass above it. */
const leastMass = 1e-9

export interface Place {
  key: number
  supplier: number
  rows: number[]
  /** The tick of the first bin. */
  first: number
  /** Prior mean by bin, cumulative: the mean of the form. The last bin contains all higher prices. */
  base: Float64Array
}
/** Whether a row is used. */
export type Uses = (row: number) => boolean

/** Placements, those with the most rows first. */
export function placesOf(rows: Rows, form: Form): Place[] {
  const groups = Map.groupBy(Array(rows.count).keys(), (row) =>
    rows.arrived[row]! < grown ? 0 : rows.placement[row]!,
  )
  groups.delete(0)
  return [...groups]
    .filter(([, group]) => group.length >= fewest)
    .sort(([one, a], [other, b]) => b.length - a.length || one - other)
    .slice(0, placementsMost)
    .map(([key, group]) => {
      const highest = group.reduce((most, row) => Math.max(most, rows.lnIn[row]!), -100)
      const first = tickOf(highest) - binCount + 2
      const base = new Float64Array(binCount)
      const step = Math.max(1, Math.floor(group.length / sampled))
      let count = 0
      for (let n = group.length - 1; n >= 0; n -= step, count++) {
        form.loadRow(group[n]!)
        for (let bin = 0; bin < binCount; bin++) base[bin]! += form.wins(lnOf(first + bin + 1))
      }
      for (let bin = 0; bin < binCount; bin++) base[bin]! /= count
      return { key, supplier: rows.supplier[group[0]!]!, rows: group, first, base }
    })
}

export const binOf = ({ first }: Place, lnPrice: number) =>
  Math.max(0, Math.min(binCount - 1, tickOf(lnPrice) - first))

/** The first bin whose price of the grid is not below the lowest winning price; `binCount`: no bin. */
function exactBin({ first }: Place, lnLeast: number): number {
  const tick = tickOf(lnLeast)
  const wins = fineGrid.ln[tick]! < lnLeast - 1e-6 ? tick + 1 : tick
  return Math.max(0, Math.min(binCount, wins - first))
}

/**
 * Expectation-maximisation. `below`: the expected number of rows by bin, cumulative, without the prior, which counts as much as
 * `strength` rows. `total`: the weight of all rows.
 */
export function estimate(
  rows: Rows,
  place: Place,
  strength: number,
  rounds: number,
  uses: Uses,
): { below: Float64Array; total: number } {
  const won = new Float64Array(binCount)
  const lost = new Float64Array(binCount)
  const exact = new Float64Array(binCount + 1)
  let total = 0
  for (const row of place.rows) {
    if (!uses(row)) continue
    const weight = rows.weight[row]!
    const bin = binOf(place, rows.lnPrice[row]!)
    const least = rows.lnLeast[row]!
    total += weight
    if (!Number.isNaN(least)) exact[exactBin(place, least)]! += weight
    else if (rows.won[row] === 1) won[bin]! += weight
    else lost[bin]! += weight
  }
  const { base } = place
  const prior = exact.map((_each, bin) =>
    Math.max(leastMass, (bin < binCount ? base[bin]! : 1) - (bin > 0 ? base[bin - 1]! : 0)),
  )
  const mass = prior.slice()
  const counts = new Float64Array(binCount + 1)
  const above = new Float64Array(binCount + 1)
  for (let round = 0; round < rounds; round++) {
    // Distributes each win over the bins up to its own, and each loss over the bins above its own, by their mass.
    let sum = 0
    let below = 0
    for (let bin = 0; bin < binCount; bin++) {
      sum += mass[bin]!
      above[bin] = won[bin]! / sum
      counts[bin] = below
      below += lost[bin]! / Math.max(leastMass, 1 - sum)
    }
    counts[binCount] = below
    let from = 0
    for (let bin = binCount; bin >= 0; bin--) {
      from += above[bin]!
      counts[bin] = exact[bin]! + mass[bin]! * (counts[bin]! + from)
    }
    for (let bin = 0; bin <= binCount; bin++)
      mass[bin] = (strength * prior[bin]! + counts[bin]!) / (strength + total)
  }
  for (let bin = 1; bin < binCount; bin++) counts[bin]! += counts[bin - 1]!
  return { below: counts, total }
}
