/** Settled rows in the form that a fit needs: prices, outcomes, and the place of each weight of a row among the fitted weights. */
import { blockFrom, blockMask, blocks, priorOf, sumOf, usualSum } from '../curve/layout.ts'
import { keyAt, keyCount, parameterCount, parameterNames, stepShares } from '../curve/priors.ts'
import { slotCount } from '../curve/weights.ts'
import { Exposure, readExposure } from '../exposure.ts'
import { featureBytes, hasFloor, keysOf } from '../features.ts'
import { arrivedBy } from '../train/notice-delays.ts'
import type { Job } from './job.ts'
import { outcomes } from './settled-rows.ts'

/** The weights of a row: the key, the sum, the place in the block, and the family (place among all blocks), which has one prior. */
const places = blocks.flatMap(({ sums }, key) =>
  sums.flatMap((sum, index) =>
    sum <= usualSum ? [{ key, sum, index, family: blockFrom[key]! + index }] : [],
  ),
)
/** Those of one sum are adjacent, because a fit spends most of its time in adding them up. */
export const formPlaces = places
  .filter(({ sum }) => sum < parameterCount)
  .sort((one, other) => one.sum - other.sum)
const usualPlace = places.find(({ sum }) => sum === usualSum)!
/** By family, whether its weights are parts of A. */
export const isOfA: readonly boolean[] = Array.from(sumOf, (sum) => parameterNames[sum] === 'A')
/** Prior variances of a fit by family: the whole ones, of which steps use a share. */
export const familyPriors = Float32Array.from(priorOf, (prior, family) => {
  const name = parameterNames[sumOf[family]!]
  return name === undefined ? prior : prior / stepShares[name]
})

/** Rows of younger bids are left out: it is hardly known whether they are won. */
const leastArrived = 0.05

const emptyRows = (most: number) => ({
  count: 0,
  lnIn: new Float64Array(most),
  lnPrice: new Float64Array(most),
  won: new Uint8Array(most),
  /** Probability that the notice of a win would have arrived. */
  arrived: new Float64Array(most),
  /** Logarithm of the lowest winning price; NaN: not known. */
  lnLeast: new Float64Array(most),
  weight: new Float64Array(most),
  floored: new Uint8Array(most),
  supplier: new Uint32Array(most),
  placement: new Uint32Array(most),
  /** By row and place (of `formPlaces`): the number of the fitted weight; 0: the row has none. */
  form: new Int32Array(most * formPlaces.length),
  /** By row: the number of the weight that is the usual ln in of its supplier. */
  usual: new Int32Array(most),
  /** By fitted weight, from 1: its slot and its family. */
  slots: [0],
  family: [0],
})
export type Rows = ReturnType<typeof emptyRows>

/** `halfLife`: number of later rows after which the weight of a row is halved. */
export function rowsOf(job: Job, halfLife: number): Rows {
  const most = job.outcome.length
  const rows = emptyRows(most)
  const known = new Int32Array(slotCount)
  const keys = new Uint32Array(keyCount)
  const seen = new Exposure()
  const fittedAt = (key: number, index: number, family: number) => {
    if (keys[key] === 0) return 0
    const slot = ((keys[key]! >>> 13) & blockMask[key]!) + index
    if (known[slot] === 0) {
      known[slot] = rows.slots.length
      rows.slots.push(slot)
      rows.family.push(family)
    }
    return known[slot]!
  }
  for (let n = 0; n < most; n++) {
    const features = job.features.subarray(n * featureBytes, (n + 1) * featureBytes)
    const outcome = job.outcome[n]!
    const least = job.least[n]!
    if (outcome === outcomes.void || !readExposure(features, seen)) continue
    const age = job.now - seen.sentAt
    const arrived = least > 0 ? 1 : age > 0 ? arrivedBy(job.arrived, age) : 0
    if (arrived < leastArrived) continue
    const row = rows.count++
    keysOf(features, seen.sentAt, keys)
    rows.lnIn[row] = seen.lnIn
    rows.lnPrice[row] = seen.lnIn + seen.lnF
    rows.arrived[row] = arrived
    rows.won[row] = outcome === outcomes.won ? 1 : 0
    rows.lnLeast[row] = least > 0 ? Math.log(least) : Number.NaN
    rows.weight[row] = 0.5 ** ((most - n) / halfLife)
    rows.floored[row] = hasFloor(features) ? 1 : 0
    rows.supplier[row] = keys[keyAt.supplier]!
    rows.placement[row] = keys[keyAt.placement]!
    formPlaces.forEach(({ key, index, family }, place) => {
      rows.form[row * formPlaces.length + place] = fittedAt(key, index, family)
    })
    rows.usual[row] = fittedAt(usualPlace.key, usualPlace.index, usualPlace.family)
  }
  return rows
}

/** Prior variances of the fitted weights. */
export const scaleOf = (rows: Rows, priors: Float32Array) =>
  Float64Array.from(rows.family, (family, n) => (n === 0 ? 1 : priors[family]!))

/** One observation of W0: the row, the logarithm of a price, and whether it wins. */
export interface Observations {
  row: Int32Array
  lnPrice: Float64Array
  won: Uint8Array
}

/**
 * The price sent of every row. If a supplier's notices have the lowest winning price, also the bid's own price and one between
 * both: a won bid would have won there as well, and for a lost bid it is known.
 */
export function observationsOf(rows: Rows): Observations {
  const row: number[] = []
  const lnPrice: number[] = []
  const won: number[] = []
  const add = (n: number, ln: number, wins: number) => {
    row.push(n)
    lnPrice.push(ln)
    won.push(wins)
  }
  const says = new Set(
    rows.supplier.subarray(0, rows.count).filter((_each, n) => !Number.isNaN(rows.lnLeast[n]!)),
  )
  for (let n = 0; n < rows.count; n++) {
    const [ln, lnIn, least, wins] = [
      rows.lnPrice[n]!,
      rows.lnIn[n]!,
      rows.lnLeast[n]!,
      rows.won[n]!,
    ]
    add(n, ln, wins)
    if (!says.has(rows.supplier[n]!) || (wins === 0 && Number.isNaN(least))) continue
    for (const price of [lnIn, ln + (lnIn - ln) * ((n * 0.618034) % 1)])
      if (price > ln) add(n, price, wins === 1 || price >= least ? 1 : 0)
  }
  return {
    row: Int32Array.from(row),
    lnPrice: Float64Array.from(lnPrice),
    won: Uint8Array.from(won),
  }
}
