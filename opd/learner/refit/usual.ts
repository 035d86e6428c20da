/** ln in less its usual value: ridge regression over the keys. */
import type { Form } from './form.ts'
import { minimize } from './lbfgs.ts'
import { type Rows, scaleOf, usualPlaces } from './rows.ts'

export function fitUsual(rows: Rows, form: Form, priors: Float32Array): void {
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
