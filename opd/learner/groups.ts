/** Sums of hashed weights: which weights a bid's sum has, what they come to, and one Kalman step of them. */
import { keyAt, type Priors, tuned } from './shape.ts'
import { slotMask, Weights } from './weights.ts'

/** Weights of one sum: kinds, the keys they belong to, and where the loaded bid's lie. */
export interface Group {
  kinds: Int32Array
  keys: Int32Array
  slots: Int32Array
}

/** Where the weight of a kind and key lies; -1: the bid has no such key. */
export function slotOf(kind: number, key: number): number {
  if (key === 0) return -1
  let value = Math.imul(key ^ Math.imul(kind, 0x9e3779b1), 0x85ebca6b)
  value ^= value >>> 15
  return (Math.imul(value, 0x2c1b3c6d) >>> 11) & slotMask
}

export class Groups {
  private readonly priors: number[] = []
  private table: Weights | null = null

  /** All groups are made before the first weight is asked for. */
  get weights(): Weights {
    this.table ??= new Weights(this.priors)
    return this.table
  }

  kind(prior: number): number {
    return this.priors.push(prior)
  }

  make(priors: Priors): Group {
    const entries = Object.entries(priors) as [keyof typeof keyAt, number][]
    return {
      kinds: Int32Array.from(entries, ([, prior]) => this.kind(prior)),
      keys: Int32Array.from(entries, ([key]) => keyAt[key]),
      slots: new Int32Array(entries.length),
    }
  }

  place({ kinds, keys, slots }: Group, of: Uint32Array): void {
    for (let n = 0; n < kinds.length; n++) slots[n] = slotOf(kinds[n]!, of[keys[n]!]!)
  }

  /** Finds a bid's weights, and their sum. */
  load(group: Group, keys: Uint32Array, mean: number): number {
    this.place(group, keys)
    return this.sum(group, mean)
  }

  sum({ slots }: Group, mean: number): number {
    const { pairs } = this.weights
    let sum = mean
    for (let n = 0; n < slots.length; n++) if (slots[n]! >= 0) sum += pairs[2 * slots[n]!]!
    return sum
  }

  /** Variance of a sum. */
  spread({ kinds, slots }: Group): number {
    const { weights } = this
    let sum = 0
    for (let n = 0; n < kinds.length; n++)
      if (slots[n]! >= 0) sum += weights.of(slots[n]!, kinds[n]!)
    return sum
  }

  /** `scaled`: error over (V + spread); `known`: 1 over the same, 0 where a win tells nothing of how sure we are. */
  step({ kinds, slots }: Group, g: number, scaled: number, known: number): void {
    if (g === 0) return
    for (let n = 0; n < kinds.length; n++)
      if (slots[n]! >= 0) this.touch(slots[n]!, kinds[n]!, g, scaled, known)
  }

  touch(slot: number, kind: number, g: number, scaled: number, known: number): void {
    const { weights } = this
    const v = weights.of(slot, kind)
    const less = known === 0 ? 0 : v * v * g * g * known - tuned.forgetting * weights.priors[kind]!
    weights.move(slot, kind, v * g * scaled, less)
  }
}
