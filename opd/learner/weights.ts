/**
 * The table of hashed weights, a mean and a variance each, and what of it was touched since the last delta. Deltas are in
 * information form (1/v and m/v), which adds: nodes sum what others learned, in any order.
 */
import type { Rows } from './bytes.ts'

/** 2^19 slots of two Float32 are 4 MiB, and as much again for what was sent. */
export const slotCount = 2 ** 19
export const slotMask = slotCount - 1
/** A mean never leaves this, whatever it is taught; a variance not (1e-4, 1] of its prior. */
const bound = 12
const surest = 1e-4

export class Weights {
  readonly mean = new Float32Array(slotCount)
  /** 0: never touched, the prior's. */
  readonly variance = new Float32Array(slotCount)
  /** Prior variance by kind, from 1. */
  readonly priors: Float64Array
  private readonly sentMean = new Float32Array(slotCount)
  private readonly sentVariance = new Float32Array(slotCount)
  /** The kind of what touched a slot since the last delta; 0: nothing did. */
  private readonly touched = new Uint8Array(slotCount)
  private readonly list = new Int32Array(slotCount)
  private listed = 0

  constructor(priors: readonly number[]) {
    this.priors = Float64Array.of(0, ...priors)
  }

  of(slot: number, kind: number): number {
    const known = this.variance[slot]!
    return known === 0 ? this.priors[kind]! : known
  }

  /** Moves a mean, and takes `less` off its variance. A step that is no number is none. */
  move(slot: number, kind: number, step: number, less: number): void {
    const mean = this.mean[slot]! + step
    if (!(mean > -bound && mean < bound)) return
    const prior = this.priors[kind]!
    const after = (this.variance[slot]! || prior) - less
    this.mean[slot] = mean
    this.variance[slot] = after > prior ? prior : after > prior * surest ? after : prior * surest
    if (this.touched[slot] !== 0) return
    this.touched[slot] = kind
    this.list[this.listed++] = slot
  }

  /** What was learned since the last call. */
  delta(): Rows {
    const { mean, variance, sentMean, sentVariance, touched, list, listed } = this
    const places = new Uint32Array(listed)
    const a = new Float32Array(listed)
    const b = new Float32Array(listed)
    for (let n = 0; n < listed; n++) {
      const slot = list[n]!
      const kind = touched[slot]!
      touched[slot] = 0
      const before = sentVariance[slot]! || this.priors[kind]!
      const [m, v] = [mean[slot]!, variance[slot]!]
      places[n] = kind * 2 ** 24 + slot
      a[n] = 1 / v - 1 / before
      b[n] = m / v - sentMean[slot]! / before
      sentMean[slot] = m
      sentVariance[slot] = v
    }
    this.listed = 0
    return { places, a, b }
  }

  /** What others learned; it is not sent on. */
  merge({ places, a, b }: Rows): void {
    for (let n = 0; n < places.length; n++) {
      const prior = this.priors[places[n]! >>> 24] ?? 0
      if (prior === 0) continue
      const slot = places[n]! & slotMask
      add(this.mean, this.variance, slot, prior, a[n]!, b[n]!)
      add(this.sentMean, this.sentVariance, slot, prior, a[n]!, b[n]!)
    }
  }

  restore(mean: Float32Array, variance: Float32Array): void {
    this.mean.set(mean)
    this.variance.set(variance)
    this.sentMean.set(mean)
    this.sentVariance.set(variance)
  }
}

/** Adds information to one weight; what is known stays between the prior and ten thousand times as much. */
function add(
  mean: Float32Array,
  variance: Float32Array,
  slot: number,
  prior: number,
  a: number,
  b: number,
): void {
  const before = variance[slot]! || prior
  const precision = Math.max(1 / prior, Math.min(1 / (surest * prior), 1 / before + a))
  const to = (mean[slot]! / before + b) / precision
  variance[slot] = 1 / precision
  mean[slot] = to > bound ? bound : to < -bound ? -bound : to
}
