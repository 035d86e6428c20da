/** L-BFGS (Nocedal 1980) with a diagonal preconditioner and backtracking. */

const memory = 8
const sufficient = 1e-4
const tolerance = 1e-5

/** The value at `x`; the gradient goes into `gradient`. */
type Objective = (x: Float64Array, gradient: Float64Array) => number

const dot = (a: Float64Array, b: Float64Array) => {
  let sum = 0
  for (let n = 0; n < a.length; n++) sum += a[n]! * b[n]!
  return sum
}

/** Changes `x` to a minimum by at most `evaluations` calls, and returns the value there. `scale`: approximate inverses of the second derivatives. */
export function minimize(
  objective: Objective,
  x: Float64Array,
  scale: Float64Array,
  evaluations: number,
): number {
  const size = x.length
  let gradient = new Float64Array(size)
  let value = objective(x, gradient)
  let left = evaluations - 1
  let gamma = 1
  const pairs: { s: Float64Array; y: Float64Array; rho: number }[] = []
  const alphas = new Float64Array(memory)
  while (left > 0) {
    const direction = gradient.slice()
    for (let n = pairs.length - 1; n >= 0; n--) {
      const { s, y, rho } = pairs[n]!
      const alpha = rho * dot(s, direction)
      alphas[n] = alpha
      for (let index = 0; index < size; index++) direction[index]! -= alpha * y[index]!
    }
    for (let index = 0; index < size; index++) direction[index]! *= gamma * scale[index]!
    pairs.forEach(({ s, y, rho }, n) => {
      const by = alphas[n]! - rho * dot(y, direction)
      for (let index = 0; index < size; index++) direction[index]! += by * s[index]!
    })
    const slope = dot(gradient, direction)
    if (!(slope > tolerance * Math.max(1, Math.abs(value)) * 1e-3)) break
    let length = 1
    const next = new Float64Array(size)
    const nextGradient = new Float64Array(size)
    let nextValue = Number.POSITIVE_INFINITY
    while (left > 0) {
      for (let index = 0; index < size; index++)
        next[index] = x[index]! - length * direction[index]!
      nextValue = objective(next, nextGradient)
      left--
      if (nextValue <= value - sufficient * length * slope) break
      length *= 0.4
    }
    if (!(nextValue < value)) break
    const s = new Float64Array(size)
    const y = new Float64Array(size)
    for (let index = 0; index < size; index++) {
      s[index] = next[index]! - x[index]!
      y[index] = nextGradient[index]! - gradient[index]!
    }
    const sy = dot(s, y)
    if (sy > 1e-12) {
      pairs.push({ s, y, rho: 1 / sy })
      if (pairs.length > memory) pairs.shift()
      let curvature = 0
      for (let index = 0; index < size; index++) curvature += y[index]! * y[index]! * scale[index]!
      gamma = sy / curvature
    }
    x.set(next)
    gradient = nextGradient
    const gained = value - nextValue
    value = nextValue
    if (gained < tolerance * Math.max(1, Math.abs(value)) * 0.1) break
  }
  return value
}
