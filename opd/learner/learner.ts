/** The learner: decisions, training, deltas, shared curves and snapshots. */

import { drained } from '../base/slices.ts'
import type {
  BidFacts,
  BidFilter,
  Decision,
  LearnerOptions,
  NodeLearner,
  PastOutcome,
  Policy,
  RecentBid,
} from '../learner-types.ts'
import { SupplierStates } from './control/supplier-states.ts'
import { Curve } from './curve/curve.ts'
import { keyAt, keyCount } from './curve/priors.ts'
import { Decider, sound } from './decide/decider.ts'
import { Exposure, isPrice, OwnDecision, readExposure, writeExposure } from './exposure.ts'
import { featureBytes, floorOf, hasFloor, hashAt, keysOf, writeFeatures } from './features.ts'
import { joined, sliceBytes } from './frame.ts'
import { readFitted } from './refit/job.ts'
import {
  DeltaError,
  type Origin,
  readDelta,
  readingCurve,
  readingSnapshot,
  writeCurve,
  writeDelta,
  writeSnapshot,
} from './snapshot.ts'
import { DeltaSums } from './train/delta-sums.ts'
import { Trainer } from './train/trainer.ts'

const none = new Uint8Array(0)
/** Milliseconds between two shared curves, over which notices of other nodes are distributed. */
const curveEvery = 4000

export class OnlineLearner implements NodeLearner {
  private readonly curve = new Curve()
  private readonly suppliers = new SupplierStates()
  private readonly decider = new Decider(this.curve, this.suppliers)
  private readonly trainer: Trainer
  private readonly keys = new Uint32Array(keyCount)
  /** The result of the last refit. */
  private fitted: Uint8Array = none
  /** Sums of the deltas in this model, its own included. */
  private deltaSums = new DeltaSums()
  /** Decisions change no multiplier. */
  private isFrozen = false

  constructor(options: LearnerOptions, snapshot?: Uint8Array) {
    const window = sound(options.attributionWindow, 1, 1e10, 1_800_000)
    const { slices = false, trains = true, carries = true } = options
    this.trainer = new Trainer(this.curve, this.suppliers, window, { slices, trains })
    if (snapshot !== undefined) drained(this.restoring(snapshot, carries))
  }

  /**
   * A learner with a state to restore, made in slices.
   *
   * @param options of the new learner
   * @param snapshot whole
   * @throws if the snapshot is damaged
   */
  static *restored(
    options: LearnerOptions,
    snapshot: Uint8Array,
  ): Generator<undefined, OnlineLearner> {
    const learner = new OnlineLearner(options)
    yield
    yield* learner.restoring(snapshot, options.carries ?? true)
    return learner
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
  ): Decision {
    if (!this.isFrozen) this.trainer.received.beforeUse()
    return this.decider.decide(facts, policy, key, now, random, this.isFrozen)
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (!(decision instanceof OwnDecision)) return none
    const { inBa } = decision
    if (!isPrice(sentPrice) || !isPrice(inBa)) return none
    // A decision may be exposed twice, and the caller still has the bytes of the first exposure.
    if (decision.exposed) decision.bytes = decision.bytes.slice()
    decision.exposed = true
    const sent = Math.min(sentPrice, inBa)
    // A frozen model waits for no notice.
    if (this.isFrozen) writeExposure(decision, sent, now)
    else this.trainer.exposed(decision, sent, now)
    return decision.bytes
  }

  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void {
    this.trainer.win(features, clearedPrice, now, minToWin)
  }

  lose(features: Uint8Array, minToWin: number | null, now: number): void {
    this.trainer.lose(features, minToWin, now)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.trainer.withdraw(features, now)
  }

  settlePast(features: Uint8Array, outcome: PastOutcome, now: number): void {
    this.trainer.settlePast(features, outcome, now)
  }

  winUnapplied(features: Uint8Array, cleared: number, now: number, minToWin?: number): void {
    this.trainer.winUnapplied(features, cleared, now, minToWin)
  }

  advance(now: number): void {
    if (now > 0 && now < 2 ** 48) this.trainer.advance(now)
  }

  freeze(is: boolean): void {
    this.isFrozen = is
  }

  chance(facts: BidFacts, price: number): number {
    const { inBa } = facts
    if (!isPrice(inBa) || !(price >= 1e-9)) return 0
    this.trainer.received.beforeUse()
    const bytes = new Uint8Array(featureBytes)
    writeFeatures(facts, bytes)
    keysOf(bytes, this.trainer.now, this.keys)
    this.curve.loadBid(this.keys, Math.log(inBa), hasFloor(bytes))
    return this.curve.wins(Math.min(price, inBa))
  }

  recentBids({ supplier, publisher, domain }: BidFilter, most: number): RecentBid[] {
    const { trainer, curve, keys } = this
    trainer.received.beforeUse()
    const wanted = new Uint8Array(featureBytes)
    const mode = 'revenue'
    writeFeatures({ supplier, mode, inBa: 1, floor: 0, publisher, domain }, wanted)
    const asked = [keyAt.supplier, keyAt.publisher, keyAt.domain]
      .map((key) => ({ key, hash: hashAt(wanted, key) }))
      .filter(({ hash }) => hash !== 0)
    const accepts = (bytes: Uint8Array, from: number) =>
      asked.every(({ key, hash }) => hashAt(bytes, key, from) === hash)
    const seen = new Exposure()
    return trainer.rows.newest(accepts, most).flatMap((features) => {
      if (!readExposure(features, seen)) return []
      const { inBa, lnIn } = seen
      return {
        inBa,
        floor: floorOf(features),
        chances(prices) {
          keysOf(features, trainer.now, keys)
          curve.loadBid(keys, lnIn, hasFloor(features))
          return prices.map((price) => curve.wins(Math.min(price, inBa)))
        },
      }
    })
  }

  refitJob(now: number): Uint8Array | null {
    return this.isFrozen ? null : this.trainer.refitJob(now)
  }

  applyRefit(result: Uint8Array): void {
    const fitted = readFitted(result)
    if (fitted === null || !fitted.means.every(Number.isFinite))
      throw new DeltaError('a refit result is damaged')
    if (this.isFrozen) return
    this.fitted = result
    const { means, variances } = this.curve.weights
    fitted.slots.forEach((slot, n) => {
      means[slot] = fitted.means[n]!
      variances[slot] = fitted.variances[n]!
    })
    this.curve.densities.set(fitted)
    this.suppliers.fitted(this.trainer.now)
  }

  delta(): Uint8Array {
    const [rows, records] = [this.trainer.log.takeRows(), this.suppliers.delta()]
    this.deltaSums.addDelta(rows, records)
    return writeDelta(rows, records)
  }

  merge(delta: Uint8Array): void {
    const read = readDelta(delta)
    if (read === null) throw new DeltaError('a delta is damaged, or not a delta')
    const { rows, records } = read
    this.trainer.accompanied()
    this.trainer.received.addRows(rows)
    this.suppliers.merge(records)
    this.deltaSums.addDelta(rows, records)
  }

  snapshot(): Uint8Array {
    return joined(drained(this.snapshotting()))
  }

  snapshotting(taken = () => {}): Generator<undefined, Uint8Array[]> {
    const { curve, trainer, suppliers } = this
    return writeSnapshot(curve.weights, trainer, suppliers, () => this.takeOrigin(taken))
  }

  *sharing(taken: () => void): Generator<undefined, Uint8Array[]> {
    yield* this.trainer.received.catchingUp()
    return yield* writeCurve(this.curve.weights, () => this.takeOrigin(taken))
  }

  private takeOrigin(taken: () => void): Origin {
    taken()
    const { fitted, deltaSums } = this
    return { fitted, deltaSums }
  }

  *adopting(
    bytes: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean> {
    const { weights, fitted, deltaSums } = yield* readingCurve(bytes)
    const deltas = missing()
    if (deltas === null || this.isFrozen) return false
    const { received, rows } = this.trainer
    received.replace(none)
    rows.clear()
    this.replace(weights, fitted)
    for (const delta of deltas) {
      const read = readDelta(delta)
      if (read === null) continue
      received.repeated.addRows(read.rows)
      deltaSums.addDelta(read.rows, read.records)
    }
    this.catchUp(deltaSums)
    return true
  }

  resume(snapshot: Uint8Array): void {
    const { weights, fitted, state, deltaSums, received, rows } = drained(readingSnapshot(snapshot))
    this.replace(weights, fitted)
    const { trainer } = this
    trainer.rows.clear()
    drained(trainer.rows.restoring(rows))
    trainer.rows.settled = state.settled
    if (fitted.length > 0) trainer.resumed()
    trainer.received.replace(received)
    this.catchUp(deltaSums)
  }

  takePending(replaced: NodeLearner): void {
    if (replaced instanceof OnlineLearner) this.trainer.takePending(replaced.trainer)
  }

  private *restoring(snapshot: Uint8Array, carries: boolean): Generator<undefined, void> {
    const read = yield* readingSnapshot(snapshot)
    // The first write of each memory page takes ten times as long as the copy.
    const { both } = this.curve.weights
    for (let index = 0; index < both.length; index += sliceBytes / 4) {
      both.set(read.weights.subarray(index, index + sliceBytes / 4), index)
      yield
    }
    this.takeFit(read.fitted)
    yield
    yield* this.suppliers.restoring(read.state.controls)
    this.deltaSums = read.deltaSums
    yield* this.trainer.restoring(read, carries)
  }

  private replace(weights: Float32Array, fitted: Uint8Array): void {
    this.curve.weights.both.set(weights)
    this.takeFit(fitted)
  }

  private takeFit(fitted: Uint8Array): void {
    const fit = readFitted(fitted)
    if (fit === null) return
    this.fitted = fitted
    this.curve.densities.set(fit)
    this.suppliers.fitted(this.trainer.now)
  }

  /** Merges what the deltas of other nodes reported since the sums that this node had before. */
  private catchUp(sums: DeltaSums): void {
    const { ages, records } = sums.since(this.deltaSums)
    this.deltaSums = sums
    this.suppliers.merge(records)
    const { now } = this.trainer
    for (const [n, age] of ages.entries())
      this.trainer.noticed(age, now - curveEvery * (1 - (n + 1) / ages.length))
    if (records.length > 0) this.trainer.accompanied()
  }
}
