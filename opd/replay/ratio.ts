/** A ratio of two sums with its confidence interval, from five moments. Bids can be added and subtracted again. */

export interface Estimate {
  value: number
  /** 95 %, by the normal approximation of a ratio (delta method). */
  low: number
  high: number
}

const z95 = 1.959964

export class Ratio {
  private u = 0
  private v = 0
  private uu = 0
  private uv = 0
  private vv = 0

  /** `sign` -1 subtracts what was added. */
  add(u: number, v: number, sign: 1 | -1): void {
    this.u += sign * u
    this.v += sign * v
    this.uu += sign * u * u
    this.uv += sign * u * v
    this.vv += sign * v * v
  }

  get value(): number {
    return this.v === 0 ? Number.NaN : this.u / this.v
  }

  /** Variance of the ratio. */
  get variance(): number {
    const { u, v, uu, uv, vv } = this
    if (v === 0) return Number.NaN
    const ratio = u / v
    return Math.max(0, uu - 2 * ratio * uv + ratio * ratio * vv) / (v * v)
  }

  /** Effective sample size (Kish), if `v` are weights. */
  get effective(): number {
    return this.vv <= 0 ? 0 : (this.v * this.v) / this.vv
  }

  estimate(): Estimate | null {
    return interval(this.value, Math.sqrt(this.variance))
  }

  /** This ratio divided by the ratio of other bids. Relative variances add. */
  over(other: Ratio): Estimate | null {
    const value = this.value / other.value
    const relative = this.variance / this.value ** 2 + other.variance / other.value ** 2
    return interval(value, Math.abs(value) * Math.sqrt(relative))
  }
}

/** null: not a finite number. */
function interval(value: number, deviation: number): Estimate | null {
  if (!Number.isFinite(value) || !Number.isFinite(deviation)) return null
  return { value, low: value - z95 * deviation, high: value + z95 * deviation }
}
