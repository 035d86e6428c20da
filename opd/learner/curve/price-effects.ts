/** What single prices add to a curve: competitors who round, and bands of prices. */
import {
  largestUnit,
  roundedBy,
  stepsBelow,
  tickOf,
  unitIds,
  unitsSeen,
} from '../decide/price-grid.ts'
import type { Step } from './kalman-step.ts'
import { type Band, bands, type Key, keyAt, rounding } from './priors.ts'
import { halfCount, lineSlots, type Weights } from './weights.ts'

const roundingOf = Object.entries(rounding) as [Key, number][]
/** Prior variances of lines, in the order in which families are numbered: bands, then units of rounding. */
export const priceFamilies: readonly number[] = [
  ...bands.map(({ prior }) => prior),
  ...roundingOf.map(([, prior]) => prior),
]
/** A slot of the second half of the table. */
const slotAt = (base: number, by: number) => halfCount + ((base + by) & (halfCount - 1))
const baseOf = (family: number, key: number) =>
  (Math.imul(key ^ Math.imul(family + 1, 0x9e3779b1), 0x85ebca6b) >>> 14) & -lineSlots

/** A price as the curve sees it. */
export class Point {
  lnF = 0
  /** Fine tick, and fine steps below in. */
  tick = 0
  steps = 0
  /** The largest unit of rounding, and how far it and the ones below move the border. */
  unit = 0
  readonly moves = new Float64Array(unitsSeen)

  aim(price: number, lnIn: number): void {
    const lnPrice = Math.log(price)
    this.lnF = lnPrice - lnIn
    this.tick = tickOf(lnPrice)
    this.steps = stepsBelow(this.lnF)
    this.unit = largestUnit(price, lnPrice)
    for (let n = 0; n < unitsSeen; n++) this.moves[n] = roundedBy(price, this.unit - n)
  }
}

/** Weights of single prices, of some families: where the loaded bid's begin. */
class Effects {
  private readonly weights: Weights
  private readonly means: Float32Array
  /** The number of the first family in the table. */
  private readonly first: number
  private readonly keys: Int32Array
  private readonly priors: Float64Array
  private readonly families: Int32Array
  /** Of the loaded bid: its families, and where each begins. */
  private readonly present: Int32Array
  private readonly bases: Int32Array
  private count = 0

  constructor(weights: Weights, first: number, of: readonly [number, Key, number][]) {
    this.weights = weights
    this.means = weights.means
    this.first = first
    this.families = Int32Array.from(of, ([family]) => family)
    this.keys = Int32Array.from(of, ([, key]) => keyAt[key])
    this.priors = Float64Array.from(of, ([, , prior]) => prior)
    this.present = new Int32Array(of.length)
    this.bases = new Int32Array(of.length)
  }

  load(keys: Uint32Array): void {
    let count = 0
    for (let n = 0; n < this.keys.length; n++) {
      const key = keys[this.keys[n]!]!
      if (key === 0) continue
      this.present[count] = n
      this.bases[count++] = baseOf(this.families[n]!, key)
    }
    this.count = count
  }

  sum(by: number): number {
    const { bases, count, means } = this
    // The usual, unrolled: a third of what a price costs.
    if (count === 3)
      return (
        means[slotAt(bases[0]!, by)]! +
        means[slotAt(bases[1]!, by)]! +
        means[slotAt(bases[2]!, by)]!
      )
    let sum = 0
    for (let n = 0; n < count; n++) sum += means[slotAt(bases[n]!, by)]!
    return sum
  }

  /** Adds the weights to a step that leans on them by `g`; what they add to the variance. */
  gather(by: number, g: number, step: Step): number {
    const { weights, bases, count, present, priors, families } = this
    let spread = 0
    for (let n = 0; n < count; n++) {
      const slot = slotAt(bases[n]!, by)
      const at = present[n]!
      weights.touchLine(slot, this.first + families[at]!)
      spread += step.add(slot, priors[at]!, g)
    }
    return spread
  }
}

/** Shares of the competition that round to units; shared by the experts, taught by the first. */
export class Rounds {
  private readonly units: Effects
  /** Of the loaded bid, by unit; after `span`. */
  readonly shares = new Float64Array(unitIds)
  private readonly stamps = new Int32Array(unitIds)
  private stamp = 0

  constructor(weights: Weights, first: number) {
    this.units = new Effects(
      weights,
      first,
      roundingOf.map(([key, prior], n) => [bands.length + n, key, prior]),
    )
  }

  load(keys: Uint32Array): void {
    this.units.load(keys)
    this.forget()
  }

  /** Weights have moved. */
  forget(): void {
    this.stamp = (this.stamp + 1) | 0
  }

  /** Makes ready for units in [to, from]. */
  span(from: number, to: number): void {
    const { stamps, stamp, shares } = this
    for (let id = from; id >= to; id--) {
      if (stamps[id] === stamp) continue
      stamps[id] = stamp
      shares[id] = this.units.sum(id)
    }
  }

  /** How far the border moves at a price. */
  moved({ unit, moves }: Point): number {
    const { shares } = this
    let sum = 0
    for (let n = 0; n < unitsSeen; n++) sum += shares[unit - n]! * moves[n]!
    return sum
  }

  gather({ unit, moves }: Point, g: number, step: Step): number {
    let spread = 0
    for (let n = 0; n < unitsSeen; n++) spread += this.units.gather(unit - n, g * moves[n]!, step)
    return spread
  }
}

/** A band of 4 steps is two bits wide. */
const wide = 2
const some = (wanted: (band: Band) => boolean) =>
  bands.flatMap((band, n): [number, Key, number][] =>
    wanted(band) ? [[n, band.key, band.prior]] : [],
  )

/** Effects of bands of prices, absolute and relative to in; of the second expert. */
export class Bands {
  private readonly fine: Effects
  private readonly coarse: Effects
  private readonly relative: Effects
  /** The last coarse bands that were asked for, and their sums: candidates come in order. */
  private readonly last = new Int32Array(2)
  private readonly known = new Float64Array(2)

  constructor(weights: Weights, first: number) {
    const make = (wanted: (band: Band) => boolean) => new Effects(weights, first, some(wanted))
    this.fine = make((band) => !band.relative && band.width === 1)
    this.coarse = make((band) => !band.relative && band.width === 1 << wide)
    this.relative = make((band) => band.relative)
  }

  load(keys: Uint32Array): void {
    this.fine.load(keys)
    this.coarse.load(keys)
    this.relative.load(keys)
    this.forget()
  }

  /** Weights have moved. */
  forget(): void {
    this.last[0] = this.last[1] = -1
  }

  sum(tick: number, steps: number): number {
    const { last, known } = this
    const [absolute, below] = [tick >> wide, steps >> wide]
    if (absolute !== last[0]) {
      last[0] = absolute
      known[0] = this.coarse.sum(absolute)
    }
    if (below !== last[1]) {
      last[1] = below
      known[1] = this.relative.sum(below)
    }
    return known[0]! + known[1]! + this.fine.sum(tick)
  }

  gather({ tick, steps }: Point, g: number, step: Step): number {
    return (
      this.coarse.gather(tick >> wide, g, step) +
      this.relative.gather(steps >> wide, g, step) +
      this.fine.gather(tick, g, step)
    )
  }
}
