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
  /** Mean and variance of a slot side by side: one line of the cache. A variance of 0: never touched, the prior's. */
  readonly pairs = new Float32Array(2 * slotCount)
  /** Prior variance by kind, from 1. */
  readonly priors: Float64Array
  /** Touched slots as they were at the last delta, and what others taught them since. */
  private readonly sent = new Float32Array(2 * slotCount)
  /** What is taught now was learned elsewhere, and is not sent on. */
  foreign = false
  /** The kind of what touched a slot since the last delta; 0: nothing did. */
  private readonly touched = new Uint8Array(slotCount)
  private readonly list = new Int32Array(slotCount)
  private listed = 0

  constructor(priors: readonly number[]) {
    this.priors = Float64Array.of(0, ...priors)
  }

  of(slot: number, kind: number): number {
    const known = this.pairs[2 * slot + 1]!
    return known === 0 ? this.priors[kind]! : known
  }

  /** Moves a mean, and takes `less` off its variance. A step that is no number is none. */
  move(slot: number, kind: number, step: number, less: number): void {
    const { pairs } = this
    const at = 2 * slot
    const [m, v] = [pairs[at]!, pairs[at + 1]!]
    const mean = m + step
    if (!(mean > -bound && mean < bound)) return
    const prior = this.priors[kind]!
    const after = (v || prior) - less
    pairs[at] = mean
    pairs[at + 1] = after > prior ? prior : after > prior * surest ? after : prior * surest
    if (this.foreign || this.touched[slot] === 0) this.mark(slot, kind, m, v)
  }

  /** A slot moved that was at m and v. */
  private mark(slot: number, kind: number, m: number, v: number): void {
    const { sent, touched, pairs } = this
    const at = 2 * slot
    if (touched[slot] === 0) {
      if (this.foreign) return
      touched[slot] = kind
      this.list[this.listed++] = slot
      sent[at] = m
      sent[at + 1] = v
      return
    }
    const before = v || this.priors[kind]!
    const [mean, after] = [pairs[at]!, pairs[at + 1]!]
    add(sent, at, this.priors[kind]!, 1 / after - 1 / before, mean / after - m / before)
  }

  /** What was learned since the last call was told otherwise. */
  forget(): void {
    for (let n = 0; n < this.listed; n++) this.touched[this.list[n]!] = 0
    this.listed = 0
  }

  /** What was learned since the last call. */
  delta(): Rows {
    const { pairs, sent, touched, list, listed } = this
    const places = new Uint32Array(listed)
    const a = new Float32Array(listed)
    const b = new Float32Array(listed)
    for (let n = 0; n < listed; n++) {
      const slot = list[n]!
      const kind = touched[slot]!
      touched[slot] = 0
      const at = 2 * slot
      const before = sent[at + 1]! || this.priors[kind]!
      const m = pairs[at]!
      const v = pairs[at + 1]!
      places[n] = kind * 2 ** 24 + slot
      a[n] = 1 / v - 1 / before
      b[n] = m / v - sent[at]! / before
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
      add(this.pairs, 2 * slot, prior, a[n]!, b[n]!)
      if (this.touched[slot] !== 0) add(this.sent, 2 * slot, prior, a[n]!, b[n]!)
    }
  }

  restore(pairs: Float32Array): void {
    this.pairs.set(pairs)
    this.forget()
  }
}

/** Adds information to one weight; what is known stays between the prior and ten thousand times as much. */
function add(pairs: Float32Array, at: number, prior: number, a: number, b: number): void {
  const before = pairs[at + 1]! || prior
  const precision = Math.max(1 / prior, Math.min(1 / (surest * prior), 1 / before + a))
  const to = (pairs[at]! / before + b) / precision
  pairs[at + 1] = 1 / precision
  pairs[at] = to > bound ? bound : to < -bound ? -bound : to
}
