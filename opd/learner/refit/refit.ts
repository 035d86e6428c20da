/**
 * The joint fit of a window of settled rows: the parametric form over all keys, then the distribution of prices by placement.
 * Pure: bytes in, bytes out.
 */
import { fitDensities, type Strengths } from './density.ts'
import { Form } from './form.ts'
import { readFitted, readJob, writeFitted } from './job.ts'
import { minimize } from './lbfgs.ts'
import {
  families,
  familyPriors,
  formPlaces,
  type Observations,
  observationsOf,
  type Rows,
  rowsOf,
  scaleOf,
  usualPlaces,
} from './rows.ts'
import { chosenStrengths } from './strengths.ts'

/** Number of later rows after which the weight of a row is halved. */
const halfLife = 60_000
/** Evaluations of a fit that starts from the last result, and of one that starts from zero. */
const [warm, cold] = [16, 40]
/** Evaluations of a fit to half of the rows. It starts from zero, because the last result was fitted to all rows. */
const crossFit = 20
/** The first prior variance of a family counts as much as so many values in its estimate. */
const priorCount = 30
/** Bounds of an estimated prior variance, as multiples of the first. */
const [narrowest, widest] = [0.02, 20]

export function refit(bytes: Uint8Array): Uint8Array {
  const job = readJob(bytes)
  const before = readFitted(job.before)
  const rows = rowsOf(job, halfLife)
  const form = new Form(rows)
  const priors = before?.priors.length === families ? before.priors : familyPriors
  if (before !== null) {
    const index = new Map(rows.slots.map((slot, at) => [slot, at]))
    before.slots.forEach((slot, n) => {
      const at = index.get(slot)
      if (at !== undefined && at > 0) form.x[at] = before.means[n]!
    })
  }
  fitUsual(rows, form, familyPriors)
  const observed = observationsOf(rows)
  const evaluations = before === null ? cold : warm
  const { shared, strengths } = calibrated(rows, form, observed, priors)
  form.fit(observed, priors, evaluations, shared)
  const densities = fitDensities(rows, form, strengths)
  return writeFitted({
    slots: Uint32Array.from(rows.slots.slice(1)),
    means: Float32Array.from(form.x.subarray(1)),
    variances: Float32Array.from(form.precision.subarray(1), (at) => 1 / at),
    priors: estimatedPriors(rows, form),
    ...densities,
  })
}

/**
 * Estimates the shared sums B, Q and T from rows that the other weights were not fitted to. Fitted together with thousands of
 * weights they would be too steep, because each row helps its own weights to agree with it (Neyman and Scott 1948). Sets the
 * three weights, and returns their places. The same rows determine the strengths of the distributions of prices.
 */
function calibrated(
  rows: Rows,
  form: Form,
  observed: Observations,
  priors: Float32Array,
): { shared: number[]; strengths: Strengths } {
  const shared = [1, 3, 4].map(
    (sum) => rows.form[formPlaces.findIndex((place) => place.key === 0 && place.sum === sum)]!,
  )
  if (rows.count === 0) return { shared: [], strengths: { formShares: new Map(), rows: new Map() } }
  const start = form.x.slice()
  const isOther = (row: number) => (row & 1) === 1
  for (const at of rows.form) form.x[at] = 0
  form.weight = rows.weight.map((each, row) => (isOther(row) ? 0 : each))
  form.fit(observed, priors, crossFit)
  const strengths = chosenStrengths(rows, form, (row) => !isOther(row))
  form.weight = rows.weight.map((each, row) => (isOther(row) ? each : 0))
  const change = form.calibrate(observed)
  const found = shared.map((at, n) => form.x[at]! + change[n]!)
  form.weight = rows.weight
  form.x.set(start)
  shared.forEach((at, n) => {
    form.x[at] = found[n]!
  })
  return { shared, strengths }
}

/** Fits the usual value of ln in by ridge regression over the keys, and sets the residuals. */
function fitUsual(rows: Rows, form: Form, priors: Float32Array): void {
  const { x, residual, weight, precision } = form
  const size = usualPlaces.length
  const scale = scaleOf(rows, priors)
  const noise = 0.15
  const touched = new Float64Array(x.length)
  for (let at = 0; at < rows.count * size; at++)
    touched[rows.usual[at]!]! += weight[Math.floor(at / size)]! / noise
  for (let n = 0; n < x.length; n++) scale[n] = scale[n]! / (1 + scale[n]! * touched[n]! * 2)
  const solution = new Float64Array(x.length)
  const prior = scaleOf(rows, priors)
  const left = (of: Float64Array, row: number) => {
    let sum = rows.lnIn[row]!
    for (let place = 0, at = row * size; place < size; place++, at++) sum -= of[rows.usual[at]!]!
    return sum
  }
  minimize(
    (of, gradient) => {
      let value = 0
      for (let n = 1; n < of.length; n++) {
        value += (0.5 * of[n]! * of[n]!) / prior[n]!
        gradient[n] = of[n]! / prior[n]!
      }
      for (let row = 0; row < rows.count; row++) {
        const e = left(of, row)
        const w = weight[row]! / noise
        value += 0.5 * w * e * e
        for (let place = 0, at = row * size; place < size; place++, at++)
          gradient[rows.usual[at]!]! -= w * e
      }
      gradient[0] = 0
      return value
    },
    solution,
    scale,
    25,
  )
  for (let place = 0; place < rows.count * size; place++)
    x[rows.usual[place]!] = solution[rows.usual[place]!]!
  for (let n = 0; n < x.length; n++) if (touched[n]! > 0) precision[n] = 1 / prior[n]! + touched[n]!
  x[0] = 0
  for (let row = 0; row < rows.count; row++) residual[row] = left(x, row)
}

/** Prior variances by family, estimated from the weights (empirical Bayes). */
function estimatedPriors(rows: Rows, form: Form): Float32Array {
  const counts = new Float64Array(families)
  const squares = new Float64Array(families)
  for (let n = 1; n < rows.slots.length; n++) {
    const family = rows.family[n]!
    counts[family]!++
    squares[family]! += form.x[n]! ** 2 + 1 / form.precision[n]!
  }
  return Float32Array.from(familyPriors, (prior, family) => {
    const found = (squares[family]! + priorCount * prior) / (counts[family]! + priorCount)
    return Math.max(narrowest * prior, Math.min(widest * prior, found))
  })
}
