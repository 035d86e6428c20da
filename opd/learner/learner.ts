/** The learner behind the door: decisions, teaching, deltas, snapshots. */

import type { Explained } from './control/explained.ts'
import { Controls } from './control/supplier-states.ts'
import { Curve } from './curve/curve.ts'
import { sound } from './curve/numbers.ts'
import { keyCount } from './curve/priors.ts'
import { slotCount } from './curve/weights.ts'
import { readCurveTail, writeCurveTail } from './curve-tail.ts'
import { Decider } from './decide/decider.ts'
import { OwnDecision } from './decide/own.ts'
import { describe, featureBytes, hasFloor, keysOf, supplierKey } from './features.ts'
import { type Fitted, readFitted } from './refit/job.ts'
import { DeltaError, joined, readDelta, readingDense, writeDelta, writeDense } from './snapshot.ts'
import { readSnapshot, snapshotMagic, writeTail } from './snapshot-state.ts'
import { DeltaSums } from './train/delta-sums.ts'
import { Teaching } from './train/trainer.ts'
import { isRows } from './train/update-log.ts'
import type { BidFacts, Decision, Learner, LearnerOptions, Policy } from './types.ts'

const deltaMagic = 0x62774438
const curveMagic = 0x62774332
const none = new Uint8Array(0)
/** Milliseconds between two curves, over which notices at other nodes came. */
const curveEvery = 4000

export class OnlineLearner implements Learner {
  private readonly curve = new Curve()
  private readonly controls = new Controls()
  private readonly decider = new Decider(this.curve, this.controls)
  private readonly teaching: Teaching
  private readonly keys = new Uint32Array(keyCount)
  /** The last fit. */
  private fitted: Uint8Array = none
  /** Of the deltas in this model, its own too. */
  private deltaSums = new DeltaSums()
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
    const [rows, records] = [this.teaching.telling.take(), this.controls.delta()]
    this.deltaSums.add(rows, records)
    return writeDelta(deltaMagic, rows, records)
  }

  merge(delta: Uint8Array): void {
    const read = readDelta(deltaMagic, delta)
    if (read === null || !isRows(read.rows))
      throw new DeltaError('a delta that is damaged, or no delta at all')
    this.teaching.accompanied()
    this.teaching.received.add(read.rows)
    this.controls.merge(read.tail)
    this.deltaSums.add(read.rows, read.tail)
  }

  /** Takes over what the deltas of other nodes reported since this node had their sums last. */
  private catchUp(sums: DeltaSums): void {
    const { ages, records } = sums.since(this.deltaSums)
    this.deltaSums = sums
    this.controls.merge(records)
    const { now } = this.teaching
    for (const [n, age] of ages.entries())
      this.teaching.noticed(age, now - curveEvery * (1 - (n + 1) / ages.length))
    if (records.length > 0) this.teaching.accompanied()
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
      const sums = this.deltaSums.bytes.toString('base64')
      const state = { now, wins, settled: rows.settled, delays, told: sums, controls }
      return writeTail(state, pending, received.rows.saved(), this.fitted, rows)
    })
  }

  *sharing(taken: () => void): Generator<undefined, Uint8Array[]> {
    const { curve } = this
    yield* this.teaching.received.catchingUp()
    return yield* writeDense(curveMagic, curve.weights.both, () => this.besides(taken))
  }

  private *besides(taken: () => void): Generator<undefined, Uint8Array[]> {
    taken()
    const tail = writeCurveTail(this.fitted, this.deltaSums)
    yield
    return tail
  }

  *adopting(
    bytes: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean> {
    const read = yield* readingDense(curveMagic, bytes, 2 * slotCount)
    const tail = read === null ? null : readCurveTail(read.tail)
    if (read === null || tail === null)
      throw new DeltaError('a curve that is damaged, or of another version')
    const deltas = missing()
    if (deltas === null || this.still) return false
    const { received, rows } = this.teaching
    received.replace(none)
    rows.clear()
    const { fitted, deltaSums } = tail
    this.replace(read.array, fitted)
    for (const delta of deltas) {
      const own = readDelta(deltaMagic, delta)
      if (own === null || !isRows(own.rows)) continue
      received.repeated.add(own.rows)
      deltaSums.add(own.rows, own.tail)
    }
    this.catchUp(deltaSums)
    return true
  }

  private replace(weights: Float32Array, fitted: Uint8Array): void {
    this.curve.weights.both.set(weights)
    const fit = readFitted(fitted)
    if (fit === null) return
    this.fitted = fitted
    this.curve.densities.set(fit)
  }

  resume(snapshot: Uint8Array): void {
    const { weights, fitted, state, deltaSums, received, rows } = readSnapshot(snapshot)
    this.replace(weights, fitted)
    const { teaching } = this
    teaching.rows.clear()
    teaching.rows.restore(rows)
    teaching.rows.settled = state.settled
    if (fitted.length > 0) teaching.resumed()
    teaching.received.replace(received)
    this.catchUp(deltaSums)
  }

  private restore(snapshot: Uint8Array, carries: boolean): void {
    const { weights, fitted, state, deltaSums, exposures, received, rows } = readSnapshot(snapshot)
    this.replace(weights, fitted)
    this.teaching.rows.restore(rows)
    this.teaching.delays.restore(state.delays)
    this.controls.restore(state.controls)
    this.deltaSums = deltaSums
    const { now, wins, settled } = state
    this.teaching.restore({ now, wins, settled }, received, carries ? exposures : null)
  }
}
