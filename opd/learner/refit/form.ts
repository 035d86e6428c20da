/** The parametric form of the curve, fitted jointly to settled rows: the most probable weights under Gaussian priors. */
import { pA, pB, pC, pF, pQ, pT, sigmoid, WinForm } from '../curve/form.ts'
import { means, parameterCount } from '../curve/priors.ts'
import { minimize } from './lbfgs.ts'
import { formPlaces, type Observations, type Rows, scaleOf } from './rows.ts'

const width = formPlaces.length
/** By sum, the end of its places. */
const ends = Int32Array.from(
  means,
  (_mean, index) => formPlaces.filter(({ sum }) => sum <= index).length,
)
/** Prior precision of each change by a calibration, as large as that of the sums before a fit. */
const calibrationPrecision = 5

/**
 * Minus the logarithm of the likelihood of an outcome, and its derivative by w. A bid settles as lost by chance at the age when a
 * share of all notices has arrived (`arrived`: that of its present age), and as won when its notice arrives. So of the bids of an
 * age those are known that were won and noticed (w a), and those that settled as lost: lost ones ((1 - w) a), and for now some of
 * those that were won (w a (1 - a)).
 */
const lossOf = (w: number, won: boolean, arrived: number) =>
  (arrived === 1 ? 0 : Math.log(1 + w * (1 - arrived))) - Math.log(won ? w : 1 - w * arrived)
const slopeOf = (w: number, won: boolean, arrived: number) =>
  (1 - arrived) / (1 + w * (1 - arrived)) - (won ? 1 / w : -arrived / (1 - w * arrived))

/** Changes of the sums of all bids. */
interface Change {
  a: number
  b: number
  q: number
  t: number
}

/** The curves of rows by the weights `x`. `loadRow` loads the curve of one row. */
export class Form {
  readonly x: Float64Array
  /** By row, ln in less its usual value. */
  readonly residual: Float64Array
  /** By weight, 1 over its variance. */
  readonly precision: Float64Array
  /** By row, its weight in the fit. */
  weight: Float64Array
  private readonly rows: Rows
  private readonly sums = new Float64Array(parameterCount)
  private readonly form = new WinForm()
  private offset = 0

  constructor(rows: Rows) {
    this.rows = rows
    this.x = new Float64Array(rows.slots.length)
    this.precision = new Float64Array(rows.slots.length)
    this.residual = new Float64Array(rows.count)
    this.weight = rows.weight
  }

  loadRow(row: number): void {
    this.addUp(row)
    this.setCurve(row)
  }

  private addUp(row: number): void {
    const { rows, sums, x } = this
    const { form } = rows
    const first = row * width
    let place = first
    for (let sum = 0; sum < parameterCount; sum++) {
      const end = first + ends[sum]!
      let total = means[sum]!
      for (; place < end; place++) total += x[form[place]!]!
      sums[sum] = total
    }
  }

  /** Computes the curve of a row from the sums. */
  private setCurve(row: number): void {
    const { rows, sums, form } = this
    const f = rows.floored[row] === 1 ? sigmoid(sums[pF]!) : 0
    form.set(sigmoid(sums[pQ]!), sigmoid(sums[pT]!), f, sums[pB]!)
    this.offset = sums[pA]! + sums[pC]! * this.residual[row]! - form.slope * rows.lnIn[row]!
  }

  /** W0 of the loaded row. */
  wins(lnPrice: number): number {
    const { q, l, slope } = this.form
    return q * (l + (1 - l) * sigmoid(slope * lnPrice + this.offset))
  }

  /** W0 of the loaded row, bounded away from 0 and 1, and its derivatives by the six sums. */
  private derive(row: number, lnPrice: number): number {
    const { form, rows, residual } = this
    const s = sigmoid(form.slope * lnPrice + this.offset)
    return form.derive(s, lnPrice - rows.lnIn[row]!, residual[row]!)
  }

  /** Fits `x`. `pinned`: weights that do not change. */
  fit(
    observed: Observations,
    priors: Float32Array,
    evaluations: number,
    pinned: readonly number[] = [],
  ): void {
    const { rows, x } = this
    const prior = scaleOf(rows, priors)
    const isForm = new Uint8Array(x.length)
    for (const slot of rows.form) isForm[slot] = 1
    for (const slot of [0, ...pinned]) isForm[slot] = 0
    this.fisher(observed, prior, isForm)
    const scale = this.precision.map((precision, n) => (isForm[n] === 1 ? 1 / precision : 0))
    const solution = x.slice()
    minimize(
      (point, gradient) => this.posterior(observed, prior, isForm, point, gradient),
      solution,
      scale,
      evaluations,
    )
    x.set(solution)
    this.fisher(observed, prior, isForm)
  }

  /**
   * The changes of the shared sums B, Q, T and A, and of the factor of a row's own part of A and C, that minimise the loss, and the
   * loss. The rows are not those that the weights were fitted to.
   */
  calibrate({ row, lnPrice, won }: Observations): { change: Change; loss: number } {
    const { sums, rows } = this
    const { gradient } = this.form
    const change = new Float64Array(5)
    const added = new Float64Array(row.length * parameterCount)
    for (let n = 0; n < row.length; n++) {
      if (this.weight[row[n]!] === 0) continue
      this.addUp(row[n]!)
      added.set(sums, n * parameterCount)
    }
    const scale = new Float64Array(5).fill(1 / (1 + 0.02 * row.length))
    const loss = minimize(
      (point, into) => {
        const [b, q, t, a, factor] = point
        into.fill(0)
        let value = 0
        for (let n = 0; n < row.length; n++) {
          const index = row[n]!
          const weight = this.weight[index]!
          if (weight === 0) continue
          for (let sum = 0; sum < parameterCount; sum++)
            sums[sum] = added[n * parameterCount + sum]!
          const ownPart = sums[pA]! - means[pA]! + (sums[pC]! - means[pC]!) * this.residual[index]!
          sums[pB]! += b!
          sums[pQ]! += q!
          sums[pT]! += t!
          sums[pA]! += a! + factor! * ownPart
          this.setCurve(index)
          const w = this.derive(index, lnPrice[n]!)
          value += weight * lossOf(w, won[n] === 1, rows.arrived[index]!)
          const by = weight * slopeOf(w, won[n] === 1, rows.arrived[index]!)
          into[0]! += by * gradient[pB]!
          into[1]! += by * gradient[pQ]!
          into[2]! += by * gradient[pT]!
          into[3]! += by * gradient[pA]!
          into[4]! += by * gradient[pA]! * ownPart
        }
        point.forEach((part, n) => {
          value += 0.5 * part ** 2 * calibrationPrecision
          into[n]! += part * calibrationPrecision
        })
        return value
      },
      change,
      scale,
      14,
    )
    const [b, q, t, a] = change as unknown as [number, number, number, number]
    return { change: { a, b, q, t }, loss }
  }

  /** Minus the logarithm of the posterior, and its gradient into `into`. */
  private posterior(
    observed: Observations,
    prior: Float64Array,
    isForm: Uint8Array,
    point: Float64Array,
    into: Float64Array,
  ): number {
    const { rows } = this
    const { row, won } = observed
    this.x.set(point)
    let value = 0
    into.fill(0)
    for (let n = 1; n < point.length; n++) {
      if (isForm[n] === 0) continue
      value += (0.5 * point[n]! * point[n]!) / prior[n]!
      into[n] = point[n]! / prior[n]!
    }
    this.addDerivatives(observed, into, false, (w, n, weight) => {
      const arrived = rows.arrived[row[n]!]!
      value += weight * lossOf(w, won[n] === 1, arrived)
      return weight * slopeOf(w, won[n] === 1, arrived)
    })
    into[0] = 0
    return value
  }

  /** Sets `precision` to the expected (Fisher) information of each weight. */
  private fisher(observed: Observations, prior: Float64Array, isForm: Uint8Array): void {
    const { precision } = this
    for (let n = 1; n < precision.length; n++) if (isForm[n] === 1) precision[n] = 1 / prior[n]!
    this.addDerivatives(observed, precision, true, (w, _n, weight) => weight / (w * (1 - w)))
    precision[0] = 1
  }

  /**
   * For each observation, adds the derivatives of W0 by the weights of its row, or their squares, to `into`. `by`: the factor of
   * the nth observation, from W0 and the weight of its row.
   */
  private addDerivatives(
    { row, lnPrice }: Observations,
    into: Float64Array,
    squares: boolean,
    by: (w: number, n: number, weight: number) => number,
  ): void {
    const { form: places } = this.rows
    const { gradient } = this.form
    for (let n = 0, loaded = -1; n < row.length; n++) {
      const index = row[n]!
      const weight = this.weight[index]!
      if (weight === 0) continue
      if (index !== loaded) this.loadRow(index)
      loaded = index
      const factor = by(this.derive(index, lnPrice[n]!), n, weight)
      const first = index * width
      let place = first
      for (let sum = 0; sum < parameterCount; sum++) {
        const end = first + ends[sum]!
        const g = factor * (squares ? gradient[sum]! ** 2 : gradient[sum]!)
        for (; place < end; place++) into[places[place]!]! += g
      }
    }
  }
}
