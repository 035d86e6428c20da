/**
 * The joint fit of a window of settled rows: the parametric form over all keys, then the distribution of prices by placement.
 * Pure: bytes in, bytes out.
 */
import { pA, pB, pC, pQ, pT } from '../curve/form.ts'
import { means } from '../curve/priors.ts'
import { fitDensities, spikySuppliers } from './density.ts'
import { Form } from './form.ts'
import { readJob, writeFitted } from './job.ts'
import type { Uses } from './places.ts'
import {
  familyPriors,
  formPlaces,
  isOfA,
  type Observations,
  observationsOf,
  type Rows,
  rowsOf,
} from './rows.ts'

/** Number of later rows after which the weight of a row is halved. */
const halfLife = 60_000
/**
 * Evaluations of a fit. It begins at the prior means. More evaluations explain its own rows better and others worse.
 */
const evaluations = 12
/** Variance of ln in around its usual value. */
const usualNoise = 0.15
interface Start {
  above: number | null
  spread: number
}
/**
 * The fit of a half of the rows begins at each of these shapes, because the likelihood has several maxima: a win rate of .3 may be
 * a plateau of .35 that prices hardly change, or bids of which .9 could be won at higher prices. `above`: the plateau, from the win
 * rate (0) to 1; `spread`: multiple of the prior variances of A. The first begins at the prior means.
 */
const shapes: readonly Start[] = [
  { above: null, spread: 1 },
  ...[0.04, 0.15, 0.4].flatMap((above) => [1, 4].map((spread) => ({ above, spread }))),
]
/** Initial changes of B and C where a shape has a plateau, and the highest share of the plateau that is won. */
const [startB, startC, startShare] = [0.5, -1, 0.97]
/** Another shape than the first must increase the log likelihood of the rows that were left out by more. */
const leastGain = 3
/** Shapes that predict the half which is left out first worse by more than that are not fitted to it. */
const mostWorse = 12

/** The places among the weights of the sums of all bids. */
const allOf = (rows: Rows, sums: readonly number[]) =>
  sums.map(
    (sum) => rows.form[formPlaces.findIndex((place) => place.key === 0 && place.sum === sum)]!,
  )

export function refit(bytes: Uint8Array): Uint8Array {
  const rows = rowsOf(readJob(bytes), halfLife)
  const form = new Form(rows)
  fitUsual(rows, form)
  const observed = observationsOf(rows)
  const { shared, priors, spiky } = chosenShape(rows, form, observed)
  for (const place of rows.form) form.x[place] = 0
  for (const [place, value] of shared) form.x[place] = value
  form.fit(observed, priors, evaluations, [...shared.keys()])
  const densities = fitDensities(rows, form, spiky)
  return writeFitted({
    slots: Uint32Array.from(rows.slots.slice(1)),
    means: Float32Array.from(form.x.subarray(1)),
    variances: Float32Array.from(form.precision.subarray(1), (precision) => 1 / precision),
    ...densities,
  })
}

interface Shape {
  /** The weights of all bids, by place. */
  shared: ReadonlyMap<number, number>
  /** Prior variances by family. */
  priors: Float32Array
  /** Suppliers whose placements have distributions of prices. */
  spiky: ReadonlySet<number>
}

/**
 * Estimates the sums of all bids from rows that the other weights were not fitted to. Fitted together with thousands of weights
 * they would be too steep, because each row helps its own weights to agree with it (Neyman and Scott 1948). Each half is left out
 * once, because a fit may fail on one of them. The same rows determine the shape, and the suppliers with distributions of prices.
 */
function chosenShape(rows: Rows, form: Form, observed: Observations): Shape {
  if (rows.count === 0) return { shared: new Map(), priors: familyPriors, spiky: new Set() }
  const [a = 0, b = 0, c = 0, q = 0, t = 0] = allOf(rows, [pA, pB, pC, pQ, pT])
  // By a hash, because bids of two placements may alternate.
  const isOther = (row: number) => Math.imul(row, 0x9e3779b1) < 0
  const half = rows.weight.map((weight, row) => (isOther(row) ? 0 : weight))
  const other = rows.weight.map((weight, row) => (isOther(row) ? weight : 0))
  const rate = winRate(rows)
  /** Fits one half, and estimates the sums of all bids on the other. */
  const tried = ({ above, spread }: Start, fitted: Float64Array, left: Float64Array) => {
    for (const place of rows.form) form.x[place] = 0
    if (above !== null) {
      const plateau = rate + (1 - rate) * above
      form.x[q] = logit(plateau) - means[pQ]!
      form.x[a] = logit(Math.min(startShare, rate / plateau)) - means[pA]!
      form.x[b] = startB
      form.x[c] = startC
    }
    const priors = familyPriors.map((prior, family) => prior * (isOfA[family] ? spread : 1))
    form.weight = fitted
    form.fit(observed, priors, evaluations, above === null ? [] : [q])
    form.weight = left
    const { loss, change } = form.calibrate(observed)
    const x = form.x.slice()
    const shared: [number, number][] = [
      [a, x[a]! + change.a],
      [b, x[b]! + change.b],
      [c, x[c]!],
      [q, x[q]! + change.q],
      [t, x[t]! + change.t],
    ]
    return { loss, x, shared, priors }
  }
  const trials = shapes.map((shape) => ({ shape, ...tried(shape, half, other) }))
  const least = Math.min(...trials.map(({ loss }) => loss))
  const best = trials
    .filter(({ loss }) => loss < least + mostWorse)
    .map(({ shape, loss, x, shared, priors }) => {
      const swapped = tried(shape, other, half)
      const mean = new Map(
        shared.map(([place, value], n) => [place, (value + swapped.shared[n]![1]) / 2]),
      )
      return { loss: loss + swapped.loss, x, swapped: swapped.x, priors, shared: mean }
    })
    .reduce((best, fit) => (fit.loss < best.loss - leastGain ? fit : best))
  form.weight = rows.weight
  const { shared, priors, x, swapped } = best
  const spikyAfter = (fit: Float64Array, uses: Uses) => {
    form.x.set(fit)
    return spikySuppliers(rows, form, uses)
  }
  // By both halves, as the shape: one of them may prefer distributions by chance.
  const spiky = spikyAfter(x, (row) => !isOther(row)).intersection(spikyAfter(swapped, isOther))
  return { shared, priors, spiky }
}

const logit = (share: number) => Math.log(share / (1 - share))

/** Bounded away from 0 and 1. */
function winRate({ weight, won, count }: Rows): number {
  let [wins, bids] = [0.5, 1]
  for (let row = 0; row < count; row++) {
    wins += weight[row]! * won[row]!
    bids += weight[row]!
  }
  return wins / bids
}

/** Sets the usual ln in of each supplier, which is its mean, and how far each row is from it. */
function fitUsual({ count, usual, lnIn, weight }: Rows, { x, precision, residual }: Form): void {
  const sums = new Float64Array(x.length)
  const weights = new Float64Array(x.length)
  for (let row = 0; row < count; row++) {
    sums[usual[row]!]! += weight[row]! * lnIn[row]!
    weights[usual[row]!]! += weight[row]!
  }
  for (let row = 0; row < count; row++) {
    const slot = usual[row]!
    x[slot] = sums[slot]! / (weights[slot]! + usualNoise)
    precision[slot] = 1 + weights[slot]! / usualNoise
    residual[row] = lnIn[row]! - x[slot]!
  }
}
