/** Rows of a placement, or of a group of placements, and the distribution of their lowest winning price. */
import { binCount } from '../curve/price-density.ts'
import { fineGrid, tickOf } from '../decide/price-grid.ts'
import type { Form } from './form.ts'
import type { Rows } from './rows.ts'

/** Rows of the smallest. */
const fewest = 30
const perTick = Math.LN10 / 184
const lowestTick = 12 * 184

export interface Place {
  key: number
  supplier: number
  rows: number[]
  first: number
  /** Mean of the prior by bin, cumulative; the last bin holds all above. At first the form's mean. */
  base: Float64Array
}
/** Which rows are used. */
export type Uses = (row: number) => boolean

/** By traffic, each with the range of its prices. `keys` by row, 0: none; the form's mean is that of `sampled` rows. */
export function placesOf(
  rows: Rows,
  form: Form,
  keys: Uint32Array,
  most: number,
  sampled: number,
): Place[] {
  const groups = new Map<number, number[]>()
  for (let row = 0; row < rows.count; row++) {
    const key = keys[row]!
    if (key === 0) continue
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [row])
    else group.push(row)
  }
  return [...groups]
    .filter(([, group]) => group.length >= fewest)
    .sort(([one, a], [other, b]) => b.length - a.length || one - other)
    .slice(0, most)
    .map(([key, group]) => {
      const highest = group.reduce((most, row) => Math.max(most, rows.lnIn[row]!), -100)
      const first = tickOf(highest) - binCount + 2
      const supplier = rows.supplier[group[0]!]!
      const place = { key, supplier, rows: group, first, base: new Float64Array(binCount) }
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

export const binOf = (place: Place, lnPrice: number) =>
  Math.max(0, Math.min(binCount - 1, tickOf(lnPrice) - place.first))

/** The first bin whose price of the grid wins where `lnLeast` is the lowest winning price; `binCount`: none does. */
export function exactBin(place: Place, lnLeast: number): number {
  const tick = tickOf(lnLeast)
  const first = fineGrid.ln[tick]! < lnLeast - 1e-6 ? tick + 1 : tick
  return Math.max(0, Math.min(binCount, first - place.first))
}

/** Expected rows by bin, without the prior's; and of how many rows. */
export function estimate(
  rows: Rows,
  place: Place,
  strength: number,
  rounds: number,
  uses: Uses,
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
    if (!Number.isNaN(least)) exact[exactBin(place, least)]! += weight
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
