/** The learner behind the door: decisions, teaching, deltas, snapshots. */

import type { Explained } from './control/supplier-state.ts'
import { Controls } from './control/supplier-states.ts'
import { Curve } from './curve/curve.ts'
import { sound } from './curve/numbers.ts'
import { keyCount } from './curve/priors.ts'
import { slotCount } from './curve/weights.ts'
import { Decider } from './decide/decider.ts'
import { OwnDecision } from './decide/own.ts'
import { describe, featureBytes, hasFloor, keysOf, supplierKey } from './features.ts'
import { type Fitted, readFitted } from './refit/job.ts'
import {
  DeltaError,
  joined,
  readDense,
  readingDense,
  readTold,
  SnapshotError,
  writeDense,
  writeTold,
} from './snapshot.ts'
import { readTail, writeTail } from './snapshot-state.ts'
import { Teaching } from './train/trainer.ts'
import { isRows } from './train/update-log.ts'
import type { BidFacts, Decision, Learner, LearnerOptions, Policy } from './types.ts'

const toldMagic = 0x62774438
const snapshotMagic = 0x62775336
const curveMagic = 0x62774331
const none = new Uint8Array(0)

export class OnlineLearner implements Learner {
  private readonly curve = new Curve()
  private readonly controls = new Controls()
  private readonly decider = new Decider(this.curve, this.controls)
  private readonly teaching: Teaching
  private readonly keys = new Uint32Array(keyCount)
  /** The last fit. */
  private fitted: Uint8Array = none
  /** Frozen: decisions move no multiplier. */
  private still = false

  constructor(options: LearnerOptions, snapshot?: Uint8Array) {
    const window = sound(options.attributionWindow, 1, 1e10, 1_800_000)
    const { slices = false, trains = true } = options
    this.teaching = new Teaching(this.curve, this.controls, window, { slices, trains })
    if (snapshot !== undefined) this.restore(snapshot, options.carries !== false)
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
  ): Decision {
    if (!this.still) this.teaching.received.beforeAsked()
    return this.decider.decide(facts, policy, key, now, random, this.still)
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (!(decision instanceof OwnDecision)) return none
    const { inBa } = decision
    if (!(sentPrice >= 1e-9 && sentPrice < 1e9 && inBa >= 1e-9 && inBa < 1e9)) return none
    // One decision may be exposed twice, and the caller keeps the bytes of the first time.
    if (decision.exposed) decision.bytes = decision.bytes.slice()
    decision.exposed = true
    this.teaching.exposed(decision, Math.min(sentPrice, inBa), now)
    return decision.bytes
  }

  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void {
    this.teaching.win(features, clearedPrice, now, minToWin)
  }

  lose(features: Uint8Array, minToWin: number | null, now: number): void {
    this.teaching.lose(features, minToWin, now)
  }

  refitJob(now: number): Uint8Array | null {
    return this.still ? null : this.teaching.refitJob(now, this.fitted)
  }

  applyRefit(result: Uint8Array): void {
    const fitted = readFitted(result)
    if (fitted === null || !fitted.means.every(Number.isFinite))
      throw new DeltaError('a result of a refit that is damaged')
    if (this.still) return
    this.fitted = result
    this.apply(fitted)
  }

  private apply({ slots, means, variances, ...densities }: Fitted): void {
    const { weights } = this.curve
    slots.forEach((slot, n) => {
      weights.means[slot] = means[n]!
      weights.variances[slot] = variances[n]!
    })
    this.curve.densities.set(densities)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.teaching.withdraw(features, now)
  }

  advance(now: number): void {
    if (!(now > 0 && now < 2 ** 48)) return
    this.teaching.advance(now)
  }

  freeze(is: boolean): void {
    this.still = is
  }

  /** What holds now for a supplier, null where it never bid; for explanations and metrics. */
  explained(supplier: string, mode: BidFacts['mode']): Explained | null {
    return this.controls.known(supplierKey(supplier, mode))?.explained() ?? null
  }

  /** W(price | facts) as the model stands. */
  chance(facts: BidFacts, price: number): number {
    const { inBa } = facts
    if (!(inBa >= 1e-9 && inBa < 1e9 && price >= 1e-9)) return 0
    this.teaching.received.beforeAsked()
    const bytes = new Uint8Array(featureBytes)
    describe(facts, bytes)
    keysOf(bytes, this.teaching.now, this.keys)
    this.curve.load(this.keys, Math.log(inBa), hasFloor(bytes))
    return this.curve.wins(Math.min(price, inBa))
  }

  delta(): Uint8Array {
    return writeTold(toldMagic, this.teaching.telling.take(), this.controls.delta())
  }

  merge(delta: Uint8Array): void {
    const told = readTold(toldMagic, delta)
    if (told === null || !isRows(told.told))
      throw new DeltaError('a delta that is damaged, or no delta at all')
    this.teaching.accompanied()
    this.teaching.received.add(told.told)
    this.controls.merge(told.tail)
  }

  snapshot(): Uint8Array {
    const slices = this.snapshotting()
    for (;;) {
      const { done, value } = slices.next()
      if (done) return joined(value)
    }
  }

  /** The same in slices of a millisecond or two; `taken` is called when the weights are copied. */
  *snapshotting(taken: () => void = () => undefined): Generator<undefined, Uint8Array[]> {
    const { curve, controls, teaching } = this
    return yield* writeDense(snapshotMagic, curve.weights.both, () => {
      taken()
      const { now, wins, delays, pending, received, rows } = teaching
      const state = { now, wins, settled: rows.settled, delays, controls }
      return writeTail(state, pending, received.rows.saved(), this.fitted, rows)
    })
  }

  *sharing(taken: () => void): Generator<undefined, Uint8Array[]> {
    const { curve } = this
    yield* this.teaching.received.catchingUp()
    return yield* writeDense(curveMagic, curve.weights.both, () => this.lastFit(taken))
  }

  private *lastFit(taken: () => void): Generator<undefined, Uint8Array[]> {
    taken()
    const { fitted } = this
    yield
    return [fitted]
  }

  *adopting(
    bytes: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean> {
    const read = yield* readingDense(curveMagic, bytes, 2 * slotCount)
    const fit = read === null || read.tail.length === 0 ? null : readFitted(read.tail)
    if (read === null || (fit === null && read.tail.length > 0))
      throw new DeltaError('a curve that is damaged, or of another version')
    yield* this.teaching.received.catchingUp()
    const deltas = missing()
    if (deltas === null || this.still) return false
    this.curve.weights.both.set(read.array)
    if (fit !== null) {
      this.fitted = read.tail
      this.curve.densities.set(fit)
    }
    for (const delta of deltas) {
      const told = readTold(toldMagic, delta)
      if (told !== null && isRows(told.told)) this.teaching.received.repeated.add(told.told)
    }
    return true
  }

  private restore(snapshot: Uint8Array, carries: boolean): void {
    const read = readDense(snapshotMagic, snapshot, 2 * slotCount)
    if (read === null) throw new SnapshotError('a snapshot that is damaged, or of another version')
    this.curve.weights.both.set(read.array)
    const { state, exposures, received, fitted, rows } = readTail(read.tail)
    const fit = readFitted(fitted)
    if (fit !== null) {
      this.fitted = fitted
      this.curve.densities.set(fit)
    }
    this.teaching.rows.restore(rows)
    this.teaching.delays.restore(state.delays)
    this.controls.restore(state.controls)
    const { now, wins, settled } = state
    this.teaching.restore(
      { now, wins, settled },
      isRows(received) ? received : none,
      carries ? exposures : null,
    )
  }
}
