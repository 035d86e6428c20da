/** What single prices add to a curve: competitors who round, and bands of prices. */
import { largestUnit, roundedBy, stepsBelow, tickOf, unitIds, unitSize, unitsSeen } from './grid.ts'
import { type Group, type Groups, slotOf } from './groups.ts'
import { bands, keyAt, rounding } from './shape.ts'
import { slotMask } from './weights.ts'

/** A price as the curve sees it. */
export class Point {
  lnF = 0
  /** Fine tick, and fine steps below in. */
  tick = 0
  steps = 0
  /** The largest unit of rounding, and how far it and the ones below move the border. */
  unit = 0
  units = 0
  readonly moves = new Float64Array(unitsSeen)

  aim(price: number, lnIn: number): void {
    const lnPrice = Math.log(price)
    this.lnF = lnPrice - lnIn
    this.tick = tickOf(lnPrice)
    this.steps = stepsBelow(this.lnF)
    this.unit = largestUnit(price)
    this.units = Math.min(unitsSeen, this.unit + 1)
    for (let n = 0; n < this.units; n++) this.moves[n] = roundedBy(price, unitSize(this.unit - n))
  }
}

/** Shares of the competition that round to units; shared by the experts, taught by the first. */
export class Rounds {
  private readonly groups: Groups
  private readonly group: Group
  private readonly shares = new Float64Array(unitIds + 8)

  constructor(groups: Groups) {
    this.groups = groups
    this.group = groups.make(rounding)
  }

  load(keys: Uint32Array): void {
    this.groups.place(this.group, keys)
  }

  /** Makes ready for units in [to, from]. */
  span(from: number, to: number): void {
    const { slots } = this.group
    const { pairs } = this.groups.weights
    for (let id = from; id >= Math.max(0, to); id--) {
      let sum = 0
      for (let n = 0; n < slots.length; n++)
        if (slots[n]! >= 0) sum += pairs[2 * ((slots[n]! + id) & slotMask)]!
      this.shares[id] = sum
    }
  }

  /** How far the border moves at a price; `moves` from `at`, of `unit` and the ones below. */
  moved(unit: number, moves: Float64Array, at: number): number {
    const units = unit < unitsSeen - 1 ? unit + 1 : unitsSeen
    let sum = 0
    for (let n = 0; n < units; n++) sum += this.shares[unit - n]! * moves[at + n]!
    return sum
  }

  spread(point: Point, g: number): number {
    const { kinds, slots } = this.group
    const { weights } = this.groups
    let sum = 0
    for (let n = 0; n < point.units; n++) {
      const d = g * point.moves[n]!
      for (let r = 0; r < kinds.length; r++)
        if (slots[r]! >= 0)
          sum += d * d * weights.of((slots[r]! + point.unit - n) & slotMask, kinds[r]!)
    }
    return sum
  }

  step(point: Point, g: number, scaled: number, known: number): void {
    const { kinds, slots } = this.group
    for (let n = 0; n < point.units; n++) {
      const d = g * point.moves[n]!
      for (let r = 0; r < kinds.length; r++)
        if (slots[r]! >= 0)
          this.groups.touch((slots[r]! + point.unit - n) & slotMask, kinds[r]!, d, scaled, known)
    }
  }
}

/** A band of 4 steps is two bits wide. */
const shift = Int32Array.from(bands, ({ width }) => Math.log2(width))
const relative = Uint8Array.from(bands, (band) => (band.relative ? 1 : 0))

/** Effects of bands of prices, absolute and relative to in; of the second expert. */
export class Bands {
  private readonly groups: Groups
  private readonly kinds: Int32Array
  private readonly keys: Int32Array
  private readonly slots = new Int32Array(bands.length)

  constructor(groups: Groups) {
    this.groups = groups
    this.kinds = Int32Array.from(bands, ({ prior }) => groups.kind(prior))
    this.keys = Int32Array.from(bands, ({ key }) => keyAt[key])
  }

  load(keys: Uint32Array): void {
    for (let n = 0; n < this.kinds.length; n++)
      this.slots[n] = slotOf(this.kinds[n]!, keys[this.keys[n]!]!)
  }

  private at(n: number, tick: number, steps: number): number {
    const from = relative[n] === 1 ? steps : tick
    return (this.slots[n]! + (from >> shift[n]!)) & slotMask
  }

  sum(tick: number, steps: number): number {
    const { slots } = this
    const { pairs } = this.groups.weights
    let sum = 0
    for (let n = 0; n < slots.length; n++)
      if (slots[n]! >= 0) sum += pairs[2 * this.at(n, tick, steps)]!
    return sum
  }

  spread({ tick, steps }: Point): number {
    const { slots, kinds } = this
    const { weights } = this.groups
    let sum = 0
    for (let n = 0; n < slots.length; n++)
      if (slots[n]! >= 0) sum += weights.of(this.at(n, tick, steps), kinds[n]!)
    return sum
  }

  step({ tick, steps }: Point, g: number, scaled: number, known: number): void {
    const { slots, kinds } = this
    for (let n = 0; n < slots.length; n++)
      if (slots[n]! >= 0) this.groups.touch(this.at(n, tick, steps), kinds[n]!, g, scaled, known)
  }
}
