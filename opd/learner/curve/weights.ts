/**
 * The table of weights, a mean and a variance each, and what of it was touched since the last delta. Deltas are in
 * information form (1/v and m/v), which adds: nodes sum what others learned, in any order.
 */

/** Means and variances are 4 MiB, and as much for what was sent. */
export const slotCount = 2 ** 19
const slotMask = slotCount - 1
/** A mark of what lies in a block that begins before. */
const inside = 255
const marks = slotCount / 2
/** A mean never leaves this, whatever it is taught; a variance not (1e-4, 1] of its prior. */
export const bound = 12
export const surest = 1e-4

/** Information on weights, row by row in three columns: no object a row, deltas have tens of thousands. */
export interface Rows {
  /** Kind (which effect the weight belongs to, from 1: it says the prior) times 2^24, and slot. */
  places: Uint32Array
  /** What 1/v and m/v grew by. */
  a: Float32Array
  b: Float32Array
}

const markOf = (slot: number) => slot >> 1

export class Weights {
  /** Means, then variances. */
  readonly both = new Float32Array(2 * slotCount)
  readonly means = this.both.subarray(0, slotCount)
  /** 0: never touched, the prior's. */
  readonly variances = this.both.subarray(slotCount)
  /** What was touched, as it was at the last delta, and what others taught it since. */
  private readonly sentMeans = new Float32Array(slotCount)
  private readonly sentVariances = new Float32Array(slotCount)
  /** What is taught now was learned elsewhere, and is not sent on. */
  foreign = false
  /** The family, from 1, of the block or line that was touched since the last delta; 0: it was not. */
  private readonly touched = new Uint8Array(marks)
  private readonly list = new Int32Array(marks)
  private listed = 0
  /** Prior variance by kind, from 1: a kind is one place of a block. */
  private readonly priors: Float64Array
  /** By family: its first kind, and how many slots are touched together. */
  private readonly kinds: number[] = []
  private readonly widths: number[] = []

  /** Families of weights that lie side by side: prior variances of a block. */
  constructor(families: readonly (readonly number[])[]) {
    const priors = [0]
    for (const family of families) {
      this.kinds.push(priors.length)
      this.widths.push(family.length)
      priors.push(...family)
    }
    this.priors = Float64Array.from(priors)
  }

  /** Says that the block of a family that begins here is about to move. */
  touch(slot: number, family: number): void {
    if (this.touched[slot >> 1] !== 0 || this.foreign) return
    const { touched } = this
    this.list[this.listed++] = slot
    for (let at = slot; at < slot + this.widths[family]!; at += 2) {
      // Weights of another block, touched before, may lie within.
      if (touched[at >> 1] !== 0) continue
      this.keep(at, at + 2)
      touched[at >> 1] = at === slot ? family + 1 : inside
    }
  }

  /** As they were at the last delta. */
  private keep(from: number, to: number): void {
    for (let at = from; at < to; at++) {
      this.sentMeans[at] = this.means[at]!
      this.sentVariances[at] = this.variances[at]!
    }
  }

  /** A slot moved that was at m and v, by what was learned elsewhere. */
  told(slot: number, prior: number, m: number, v: number): void {
    if (this.touched[markOf(slot)] === 0) return
    const after = this.variances[slot]!
    const by = this.means[slot]! / after - m / v
    add(this.sentMeans, this.sentVariances, slot, prior, 1 / after - 1 / v, by)
  }

  /** What was learned since the last call was told otherwise. */
  forget(): void {
    const { touched, list, listed, widths } = this
    for (let n = 0; n < listed; n++) {
      const from = list[n]!
      const mark = markOf(from)
      // In a block that was cleared already.
      if (touched[mark] === 0) continue
      const marked = (widths[touched[mark]! - 1]! + 1) >> 1
      touched.fill(0, mark, mark + marked)
    }
    this.listed = 0
  }

  /** What was learned since the last call. */
  delta(): Rows {
    const { means, variances, sentMeans, sentVariances, touched, list, listed } = this
    let most = 0
    for (let n = 0; n < listed; n++) most += this.widths[touched[markOf(list[n]!)]! - 1]!
    const places = new Uint32Array(most)
    const a = new Float32Array(most)
    const b = new Float32Array(most)
    let count = 0
    for (let n = 0; n < listed; n++) {
      const from = list[n]!
      const family = touched[markOf(from)]! - 1
      const width = this.widths[family]!
      for (let at = 0; at < width; at++) {
        const slot = from + at
        const m = means[slot]!
        const v = variances[slot]!
        if (v === 0 || (m === sentMeans[slot] && v === sentVariances[slot])) continue
        const kind = this.kinds[family]! + at
        const before = sentVariances[slot]! || this.priors[kind]!
        places[count] = kind * 2 ** 24 + slot
        a[count] = 1 / v - 1 / before
        b[count++] = m / v - sentMeans[slot]! / before
        sentMeans[slot] = m
        sentVariances[slot] = v
      }
    }
    this.forget()
    return { places: places.slice(0, count), a: a.slice(0, count), b: b.slice(0, count) }
  }

  /** What others learned; it is not sent on. */
  merge({ places, a, b }: Rows): void {
    for (let n = 0; n < places.length; n++) {
      const prior = this.priors[places[n]! >>> 24] ?? 0
      if (prior === 0) continue
      const slot = places[n]! & slotMask
      add(this.means, this.variances, slot, prior, a[n]!, b[n]!)
      if (this.touched[markOf(slot)] !== 0)
        add(this.sentMeans, this.sentVariances, slot, prior, a[n]!, b[n]!)
    }
  }

  restore(both: Float32Array): void {
    this.both.set(both)
    this.forget()
  }
}

/** Adds information to one weight; what is known stays between the prior and ten thousand times as much. */
function add(
  means: Float32Array,
  variances: Float32Array,
  at: number,
  prior: number,
  a: number,
  b: number,
): void {
  const before = variances[at]! || prior
  const precision = Math.max(1 / prior, Math.min(1 / (surest * prior), 1 / before + a))
  const to = (means[at]! / before + b) / precision
  variances[at] = 1 / precision
  means[at] = to > bound ? bound : to < -bound ? -bound : to
}
