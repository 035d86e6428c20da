/**
 * Fits the distribution of the lowest winning price by expectation-maximisation. A row shows that this price is at most the price
 * sent (won), or above it (lost).
 *
 *   group      a share of the parametric form, and a distribution of the rows of all sparse placements of the group
 *   placement  a Dirichlet distribution whose prior mean is the form; of a sparse placement, the curve of its group
 *
 * A placement without a distribution of its own uses that of its group.
 */
import { binCount, type Densities, placementsMost } from '../curve/price-density.ts'
import type { Form } from './form.ts'
import { estimate, type Place, placesOf, type Uses } from './places.ts'
import type { Rows } from './rows.ts'

/** A placement with fewer rows is sparse. */
const sparseBelow = 100
/** The prior of a group's distribution counts as much as so many rows. */
const groupStrength = 20
const groupsMost = 256
/** Rounds of expectation-maximisation, which converges slowly. */
const rounds = 300
/** The prior mean is the mean form of so many rows of a placement, and of a group. */
const [sampled, sampledOfGroup] = [24, 200]

/** By supplier: the share of the form in a group, and the number of rows that the prior of a placement counts as much as. */
export interface Strengths {
  formShares: Map<number, number>
  rows: Map<number, number>
}
/** A curve: `formShare` times the form, plus a distribution, cumulative from the tick `first`. */
export interface Mixture {
  first: number
  formShare: number
  cumulative: Float64Array
}
interface Layers {
  groups: Place[]
  places: Place[]
}

export const below = ({ first, cumulative }: Mixture, tick: number): number =>
  tick < first ? 0 : cumulative[Math.min(binCount - 1, tick - first)]!

export function layersOf(rows: Rows, form: Form): Layers {
  const counts = new Map<number, number>()
  for (const key of rows.placement.subarray(0, rows.count))
    counts.set(key, (counts.get(key) ?? 0) + 1)
  const isSparse = (row: number) => (counts.get(rows.placement[row]!) ?? 0) < sparseBelow
  const sparse = rows.group.map((group, row) => (isSparse(row) ? group : 0))
  return {
    groups: placesOf(rows, form, sparse, groupsMost, sampledOfGroup),
    places: placesOf(rows, form, rows.placement, placementsMost, sampled),
  }
}

/** The curve of a group with a given share of the form. */
export function groupCurve(
  rows: Rows,
  group: Place,
  formShare: number,
  rounds: number,
  uses: Uses,
): Mixture {
  const { below, total } = estimate(rows, group, groupStrength, rounds, uses)
  const all = groupStrength + total
  const cumulative = group.base.map(
    (base, bin) => (1 - formShare) * ((groupStrength * base + below[bin]!) / all),
  )
  return { first: group.first, formShare, cumulative }
}

/** The curves of groups by key, except those of the form alone. Sets them as the prior means of sparse placements. */
export function groupCurves(
  rows: Rows,
  { groups, places }: Layers,
  shares: Map<number, number>,
  rounds: number,
  uses: Uses,
): Map<number, Mixture> {
  const found = new Map<number, Mixture>()
  for (const group of groups) {
    const share = shares.get(group.supplier) ?? 1
    if (share < 1) found.set(group.key, groupCurve(rows, group, share, rounds, uses))
  }
  for (const place of places) {
    const group = curveOfGroup(rows, place, found)
    if (group === undefined) continue
    place.base = place.base.map(
      (base, bin) => group.formShare * base + below(group, place.first + bin),
    )
  }
  return found
}

/** The curve of the group that is the prior mean of a placement; undefined: the prior mean is the form. */
export const curveOfGroup = (rows: Rows, place: Place, curves: Map<number, Mixture>) =>
  place.rows.length < sparseBelow ? curves.get(rows.group[place.rows[0]!]!) : undefined

/** The curve of a placement. Its prior counts as much as `strength` rows. */
function placeCurve(
  rows: Rows,
  place: Place,
  strength: number,
  group: Mixture | undefined,
): Mixture {
  const counts = estimate(rows, place, strength, rounds, () => true)
  const all = strength + counts.total
  const cumulative = place.base.map((_base, bin) => {
    const prior = group === undefined ? 0 : below(group, place.first + bin)
    return (strength * prior + counts.below[bin]!) / all
  })
  const formShare = ((group?.formShare ?? 1) * strength) / all
  return { first: place.first, formShare, cumulative }
}

export function fitDensities(rows: Rows, form: Form, strengths: Strengths): Densities {
  const layers = layersOf(rows, form)
  const curves = groupCurves(rows, layers, strengths.formShares, rounds, () => true)
  const found = [...curves]
  for (const place of layers.places) {
    const strength = strengths.rows.get(place.supplier) ?? Number.POSITIVE_INFINITY
    if (!Number.isFinite(strength)) continue
    const group = curveOfGroup(rows, place, curves)
    found.push([place.key, placeCurve(rows, place, strength, group)])
  }
  const cumulative = new Float32Array(found.length * binCount)
  for (const [n, [, each]] of found.entries()) cumulative.set(each.cumulative, n * binCount)
  return {
    keys: Uint32Array.from(found, ([key]) => key),
    firsts: Int32Array.from(found, ([, { first }]) => first),
    formShares: Float32Array.from(found, ([, { formShare }]) => formShare),
    cumulative,
  }
}
