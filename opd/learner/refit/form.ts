/** The parametric form of the curve, fitted to settled rows jointly: the most probable weights under Gaussian priors. */
import { means, parameterCount } from '../curve/priors.ts'
import { minimize } from './lbfgs.ts'
import type { Observations } from './observations.ts'
import { formPlaces, type Rows, scaleOf } from './rows.ts'

const [pA, pB, pC, pQ, pT, pF] = [0, 1, 2, 3, 4, 5] as const
const width = formPlaces.length
const sumAt = Uint8Array.from(formPlaces, ({ sum }) => sum)
const edge = 1e-4
/** Of each change by a calibration. */
const calibrationPrecision = 5
const logistic = (x: number) => 1 / (1 + Math.exp(-x))
const slopeOf = (b: number) => Math.exp(b < -1 ? -1 : b > 4 ? 4 : b)

/** A row's curve under the weights, read by `loadRow`. */
export class Form {
  readonly x: Float64Array
  /** What ln in is above its usual value, by row. */
  readonly residual: Float64Array
  readonly precision: Float64Array
  /** How much a row counts. */
  weight: Float64Array
  private readonly rows: Rows
  private readonly sums = new Float64Array(parameterCount)
  private readonly gradient = new Float64Array(parameterCount)
  private q = 0
  private l = 0
  private t = 0
  private f = 0
  private s = 1
  private offset = 0

  constructor(rows: Rows) {
    this.rows = rows
    this.x = new Float64Array(rows.slots.length)
    this.precision = new Float64Array(rows.slots.length)
    this.residual = new Float64Array(rows.count)
    this.weight = rows.weight
  }

  loadRow(row: number): void {
    const { rows, sums, x } = this
    sums.set(means)
    for (let place = 0, at = row * width; place < width; place++, at++)
      sums[sumAt[place]!]! += x[rows.form[at]!]!
    this.settle(row)
  }

  private settle(row: number): void {
    const { rows, sums } = this
    this.t = logistic(sums[pT]!)
    this.f = rows.floored[row] === 1 ? logistic(sums[pF]!) : 0
    this.q = logistic(sums[pQ]!)
    this.l = this.t + (1 - this.t) * this.f
    this.s = slopeOf(sums[pB]!)
    this.offset = sums[pA]! + sums[pC]! * this.residual[row]! - this.s * rows.lnIn[row]!
  }

  /** W0 of the loaded row. */
  wins(lnPrice: number): number {
    return this.q * (this.l + (1 - this.l) * logistic(this.s * lnPrice + this.offset))
  }

  /** The same, and the derivatives by the six sums. */
  private ask(lnPrice: number, lnIn: number, residual: number): number {
    const { gradient, q, l, t, f, s } = this
    const c = logistic(s * lnPrice + this.offset)
    const inner = l + (1 - l) * c
    const d = q * (1 - l) * c * (1 - c)
    gradient[pA] = d
    gradient[pB] = d * s * (lnPrice - lnIn)
    gradient[pC] = d * residual
    gradient[pQ] = q * (1 - q) * inner
    gradient[pT] = q * (1 - c) * (1 - f) * t * (1 - t)
    gradient[pF] = q * (1 - c) * (1 - t) * f * (1 - f)
    const w = q * inner
    return w < edge ? edge : w > 1 - edge ? 1 - edge : w
  }

  /** `pinned`: weights that stay as they are. */
  fit(
    observed: Observations,
    priors: Float32Array,
    evaluations: number,
    pinned: readonly number[] = [],
  ): void {
    const { rows, x } = this
    const prior = scaleOf(rows, priors)
    const scale = new Float64Array(x.length)
    const isForm = new Uint8Array(x.length)
    for (const at of rows.form) isForm[at] = 1
    for (const at of [0, ...pinned]) isForm[at] = 0
    this.fisher(observed, prior, isForm)
    for (let n = 0; n < x.length; n++) scale[n] = isForm[n] === 1 ? 1 / this.precision[n]! : 0
    const solution = x.slice()
    minimize(
      (of, gradient) => this.posterior(observed, prior, isForm, of, gradient),
      solution,
      scale,
      evaluations,
    )
    x.set(solution)
    this.fisher(observed, prior, isForm)
  }

  /**
   * What minimises the loss of rows over changes of the shared sums: of B, Q, T and A, and a factor of all that A and C say
   * of the row. The rows are not those that the weights were fitted to.
   */
  calibrate({ row, lnPrice, won }: Observations): Float64Array {
    const { rows, gradient, sums } = this
    const change = new Float64Array(5)
    const scale = new Float64Array(5).fill(1 / (1 + 0.02 * row.length))
    const kept = new Float64Array(parameterCount)
    minimize(
      ([b, q, t, a, factor], into) => {
        into.fill(0)
        let value = 0
        for (let n = 0; n < row.length; n++) {
          const at = row[n]!
          const weight = this.weight[at]!
          if (weight === 0) continue
          this.loadRow(at)
          kept.set(sums)
          const own = kept[pA]! - means[pA]! + (kept[pC]! - means[pC]!) * this.residual[at]!
          sums[pB]! += b!
          sums[pQ]! += q!
          sums[pT]! += t!
          sums[pA]! += a! + factor! * own
          this.settle(at)
          const w = this.ask(lnPrice[n]!, rows.lnIn[at]!, this.residual[at]!)
          value -= weight * Math.log(won[n] === 1 ? w : 1 - w)
          const by = (weight * (w - won[n]!)) / (w * (1 - w))
          into[0]! += by * gradient[pB]!
          into[1]! += by * gradient[pQ]!
          into[2]! += by * gradient[pT]!
          into[3]! += by * gradient[pA]!
          into[4]! += by * gradient[pA]! * own
        }
        // As sure as of the sums themselves before anything was fitted.
        ;[b, q, t, a, factor].forEach((each, n) => {
          value += 0.5 * each! ** 2 * calibrationPrecision
          into[n]! += each! * calibrationPrecision
        })
        return value
      },
      change,
      scale,
      14,
    )
    return change
  }

  /** Minus the log posterior. */
  private posterior(
    { row, lnPrice, won }: Observations,
    prior: Float64Array,
    isForm: Uint8Array,
    of: Float64Array,
    into: Float64Array,
  ): number {
    const { rows, gradient, x } = this
    x.set(of)
    let value = 0
    into.fill(0)
    for (let n = 1; n < of.length; n++) {
      if (isForm[n] === 0) continue
      value += (0.5 * of[n]! * of[n]!) / prior[n]!
      into[n] = of[n]! / prior[n]!
    }
    let loaded = -1
    for (let n = 0; n < row.length; n++) {
      const at = row[n]!
      const weight = this.weight[at]!
      if (weight === 0) continue
      if (at !== loaded) this.loadRow(at)
      loaded = at
      const w = this.ask(lnPrice[n]!, rows.lnIn[at]!, this.residual[at]!)
      value -= weight * Math.log(won[n] === 1 ? w : 1 - w)
      const by = (weight * (w - won[n]!)) / (w * (1 - w))
      for (let place = 0, from = at * width; place < width; place++, from++)
        into[rows.form[from]!]! += by * gradient[sumAt[place]!]!
    }
    into[0] = 0
    return value
  }

  /** Expected information on each weight by itself. */
  private fisher({ row, lnPrice }: Observations, prior: Float64Array, isForm: Uint8Array): void {
    const { rows, gradient, precision } = this
    for (let n = 1; n < precision.length; n++) if (isForm[n] === 1) precision[n] = 1 / prior[n]!
    let loaded = -1
    for (let n = 0; n < row.length; n++) {
      const at = row[n]!
      if (at !== loaded) this.loadRow(at)
      loaded = at
      const w = this.ask(lnPrice[n]!, rows.lnIn[at]!, this.residual[at]!)
      const by = this.weight[at]! / (w * (1 - w))
      for (let place = 0, from = at * width; place < width; place++, from++) {
        const g = gradient[sumAt[place]!]!
        precision[rows.form[from]!]! += by * g * g
      }
    }
    precision[0] = 1
  }
}
