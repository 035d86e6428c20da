/** The learner behind the door: curve, prices, controller, pending exposures, deltas, snapshots. */
import type { BidFacts, Decision, Learner, LearnerOptions, Policy } from '../learner.ts'
import {
  DeltaError,
  joined,
  readDense,
  readRows,
  readTold,
  SnapshotError,
  writeDense,
  writeRows,
  writeTold,
} from './bytes.ts'
import { type Asked, Chooser } from './choose.ts'
import { Controls } from './controls.ts'
import { Curve } from './curve.ts'
import { Delays } from './delays.ts'
import {
  describe,
  type Exposure,
  featureBytes,
  hasFloor,
  hashText,
  keysOf,
  publisherIn,
  readExposure,
  seal,
  seatIn,
  supplierIn,
  supplierKey,
} from './features.ts'
import { shareStep } from './outcome.ts'
import { OwnDecision } from './own.ts'
import { Pending } from './pending.ts'
import { readTail, writeTail } from './saved.ts'
import { keyCount } from './shape.ts'
import type { Explained, SupplierState } from './supplier.ts'
import { Heard, isRows, type Row, type TaughtPart, Telling } from './taught.ts'
import { slotCount } from './weights.ts'

const deltaMagic = 0x62774435
const toldMagic = 0x62774436
const snapshotMagic = 0x62775334
const none = new Uint8Array(0)
/** Exposures settled by one call: under 5 ms. */
const settledAtOnce = 1500
/** Rows of other nodes that are taught beside one exposure where that is done in slices; and most that wait. */
const heardBeside = 8
const heardMost = 65_536
/** Wins that are due since the last one came, before losses are no longer taken for losses; and wins that must have come. */
const dueBeforeDoubt = 15
const winsBeforeDoubt = 50
/** Milliseconds without a win that are no burst. */
const quiet = 5000
/** Milliseconds between looks at an exposure before any notice came, and most that it waits for one. */
const unknownFor = 5000
const unknownMost = 15_000
/** Bids that go out below their own price before the first win; without one by then its own is better. */
const coldFor = 1000
/** Where the policy does not say: as the configuration. */
const usualExplore = 0.005

const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise

const shareOf = (ticket: number) => (Math.imul(ticket, 0x9e3779b1) >>> 0) / 2 ** 32

export class OnlineLearner implements Learner {
  private readonly curve = new Curve()
  private readonly chooser = new Chooser()
  private readonly delays = new Delays()
  private readonly pending: Pending
  private readonly controls = new Controls()
  private readonly window: number
  private readonly slices: boolean
  private readonly keys = new Uint32Array(keyCount)
  private readonly asked: Asked = { inBa: 0, lowest: 0, reward: 0, saving: 0, bias: 0 }
  private readonly seen: Exposure = {
    ticket: 0,
    supplier: 0,
    publisher: 0,
    seat: 0,
    arm: 'treated',
    second: false,
    inBa: 0,
    sent: 0,
    lnIn: 0,
    lnF: 0,
    winIn: 0,
    winOut: 0,
    at: 0,
  }
  /** After a crash: until when the life before is known, and since when this one is; NaN: nothing was lost. */
  private lostAt = Number.NaN
  private bornAt = Number.NaN
  private readonly telling = new Telling()
  private readonly heard = new Heard()
  private wins = 0
  /** Wins that the model expects of what was settled since the last win. */
  private due = 0
  private wonAt = 0
  private behind = false
  /** The latest time that was told. */
  private now = 0
  /** Frozen: decisions move no multiplier. */
  private still = false
  /** When the exposure that was read last is looked at; a ticket's own share of notices has come by then. */
  private readonly dueOf = (ticket: number) => {
    const { at } = this.seen
    const age = this.delays.age(shareOf(ticket))
    return at + Math.min(this.window, this.delays.look(age, Math.max(0, this.now - at)))
  }
  private readonly hearRow = (row: Row) => this.hear(row)
  private readonly settleDue = (bytes: Uint8Array, weight: number) => this.settle(bytes, weight)

  constructor(options: LearnerOptions, snapshot?: Uint8Array) {
    this.window = sound(options.attributionWindow, 1, 1e10, 1_800_000)
    this.pending = new Pending(this.window)
    this.slices = options.slices === true
    if (snapshot !== undefined) this.restore(snapshot, options.carries !== false)
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
  ): Decision {
    if (!this.slices && !this.still) this.hearSome()
    const bytes = new Uint8Array(featureBytes)
    const { inBa } = facts
    const decision = new OwnDecision(facts, bytes)
    decision.outBa = inBa
    if (!(inBa >= 1e-9 && inBa < 1e9)) return decision
    describe(facts, bytes)
    keysOf(bytes, now > 0 ? now : 0, this.keys)
    this.curve.load(this.keys, Math.log(inBa), hasFloor(bytes))
    const holdout = sound(policy.holdout, 0, 1, 0)
    const held = holdout > 0 && hashText(key, 0x27d4eb2f) / 2 ** 32 < holdout
    if (held) {
      decision.arm = 'holdout'
      decision.propensity = holdout
    }
    const floor = facts.floor > 0 ? facts.floor : 0
    if (floor >= inBa) return this.unchanged(decision)
    const state = this.controls.of(supplierIn(bytes, facts.mode))
    state.load(policy, facts.mode, publisherIn(bytes), seatIn(bytes))
    decision.theta = state.theta
    decision.lambda = state.lambda
    decision.guard = state.guard
    const least = Math.max(sound(policy.minFactor, 0, 1, 0), floor / inBa)
    const guarded = Math.max(least, state.lowest(least))
    if (held) return this.hold(decision, state, guarded, floor)
    const steady = sound(policy.explore, 0, 1, usualExplore)
    const explore =
      steady === 0 || state.exposures === 0 ? 0 : Math.max(steady, Math.min(0.1, state.curiosity))
    if (explore > 0 && random() < explore) {
      this.explore(decision, least, guarded, steady / explore, random)
      decision.propensity = (1 - holdout) * explore
      decision.winIn = this.curve.wins(inBa)
      decision.winOut = Math.min(decision.winIn, this.curve.wins(decision.outBa))
    } else {
      decision.propensity = (1 - holdout) * (1 - explore)
      this.choose(decision, state, guarded, floor)
    }
    const { outBa: out, winIn, winOut } = decision
    if (!this.still) state.decided(policy, facts.mode, { inBa, out, winIn, winOut }, now)
    return decision
  }

  private unchanged(decision: OwnDecision): Decision {
    decision.winIn = this.curve.wins(decision.inBa)
    decision.winOut = decision.winIn
    return decision
  }

  /** Its own price, and in the features what it would have had: that tells what lower prices lose. */
  private hold(
    decision: OwnDecision,
    state: SupplierState,
    lowest: number,
    floor: number,
  ): Decision {
    this.choose(decision, state, lowest, floor)
    decision.would =
      decision.factor < 0.999
        ? Math.max(0, Math.min(decision.winOut, decision.winIn - 4 * shareStep))
        : decision.winIn
    decision.outBa = decision.inBa
    decision.factor = 1
    decision.winOut = decision.winIn
    return decision
  }

  /** Uniform over what is permitted (share `wide`) or over what the guards allow: a mixture of two densities. */
  private explore(
    decision: OwnDecision,
    least: number,
    guarded: number,
    wide: number,
    random: () => number,
  ): void {
    decision.arm = 'explored'
    const low = random() < wide ? least : guarded
    const factor = low + random() * (1 - low)
    decision.density = wide / (1 - least) + (factor >= guarded ? (1 - wide) / (1 - guarded) : 0)
    decision.factor = factor
    decision.outBa = Math.min(decision.inBa, decision.inBa * factor)
  }

  private choose(decision: OwnDecision, state: SupplierState, lowest: number, floor: number): void {
    const { curve, chooser, asked } = this
    const { inBa } = decision
    curve.caution()
    asked.inBa = inBa
    asked.lowest = Math.max(floor, inBa * lowest)
    asked.reward = state.theta * inBa + state.lambda
    asked.bias = state.bias
    asked.saving = curve.saving(decision.second)
    if (asked.lowest >= inBa) {
      this.unchanged(decision)
      return
    }
    // What is quite unknown is not left at its own price: it would never be known.
    const cold = state.guards.winsKnown === 0 && state.exposures < coldFor
    const price = cold ? asked.lowest : chooser.best(curve, asked)
    decision.outBa = price < asked.lowest ? asked.lowest : price
    decision.factor = decision.outBa / inBa
    if (cold) {
      decision.winIn = curve.wins(inBa)
      decision.winOut = Math.min(decision.winIn, curve.wins(price))
      return
    }
    decision.winIn = chooser.winIn
    decision.winOut = chooser.winOut
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (!(decision instanceof OwnDecision)) return none
    const { bytes, inBa } = decision
    if (!(sentPrice >= 1e-9 && sentPrice < 1e9 && inBa >= 1e-9 && inBa < 1e9)) return none
    const at = now > 0 && now < 2 ** 48 ? now : this.now
    this.now = at
    if (!(this.bornAt > 0)) this.bornAt = at
    this.hearSome(this.slices ? heardBeside : Number.POSITIVE_INFINITY)
    if (this.behind) this.behind = !this.pending.advance(at, 4, this.settleDue)
    const sent = sentPrice < inBa ? sentPrice : inBa
    seal(bytes, decision, decision, sent, at)
    readExposure(bytes, this.seen)
    const { winOut } = this.seen
    this.delays.exposed(decision.arm === 'holdout' ? this.seen.winIn : winOut, at)
    this.pending.add(bytes, at, this.dueOf)
    const { supplier, publisher, seat } = this.seen
    this.controls.of(supplier).exposed(this.seen, this.delays.patience, publisher, seat)
    // A copy: one decision may be exposed twice.
    return bytes.slice()
  }

  win(features: Uint8Array, clearedPrice: number, now: number): void {
    if (!this.slices) this.hearSome()
    const { seen } = this
    if (!(clearedPrice >= 0) || !readExposure(features, seen)) return
    const age = now - seen.at
    if (this.isLost(now)) {
      if (seen.at <= this.lostAt)
        this.controls.of(seen.supplier).won(seen, clearedPrice, now, seen.publisher, seen.seat)
      return
    }
    const weight = this.pending.take(seen.ticket, features)
    this.loadSeen(features)
    if (weight > 0) this.lost(features, weight, age)
    const part =
      clearedPrice > seen.sent * 1.005 ? 'won' : clearedPrice < seen.sent * 0.999 ? 'saved' : 'paid'
    this.telling.add(part, 0, age, features)
    this.won(part, age, now, true)
    this.controls.of(seen.supplier).won(seen, clearedPrice, now, seen.publisher, seen.seat)
  }

  /** Its exposure went with the life before, untaught: the win read last teaches nothing either. */
  private isLost(now: number): boolean {
    if (!(this.lostAt > 0)) return false
    if (!(this.bornAt > 0)) this.bornAt = now
    const { at, ticket } = this.seen
    return at < this.bornAt && this.delays.age(shareOf(ticket)) > this.lostAt - at
  }

  private loadSeen(features: Uint8Array): void {
    keysOf(features, this.seen.at, this.keys)
    this.curve.load(this.keys, this.seen.lnIn, hasFloor(features))
  }

  /** An own exposure, read and loaded, is taught as if lost, and told. */
  private lost(features: Uint8Array, weight: number, age: number): void {
    this.telling.add('lost', weight, age, features)
    for (let n = 0; n < weight; n++) this.exposure('exposure')
  }

  /** A win, read and loaded, is taught. */
  private won(part: TaughtPart, age: number, now: number, here: boolean): void {
    const { seen } = this
    if (age >= 0 && age < 1e12) this.delays.came(age, now, here)
    this.wins++
    this.due = 0
    if (now > this.wonAt) this.wonAt = now
    this.exposure('win')
    if (part !== 'won') this.curve.teachSaving(seen.second, part === 'saved')
  }

  /** What another node taught its model is taught to this one; a win that was told there takes its exposure out here. */
  private hear({ part, weight, age, features }: Row): void {
    const { seen, curve } = this
    if (!readExposure(features, seen)) return
    this.loadSeen(features)
    const own = part === 'lost' ? 0 : this.pending.take(seen.ticket, features)
    if (own > 0 && part !== 'undone') this.lost(features, own, age)
    curve.weights.foreign = true
    if (part === 'lost') for (let n = 0; n < weight; n++) this.exposure('exposure')
    else if (part !== 'undone') this.won(part, age, seen.at + age, false)
    else if (own === 0) this.exposure('exposure', -1)
    curve.weights.foreign = false
  }

  private exposure(part: 'exposure' | 'win', sign: 1 | -1 = 1): void {
    this.curve.teach(this.seen.sent, part, sign)
  }

  withdraw(features: Uint8Array, now: number): void {
    if (!this.slices) this.hearSome()
    const { seen } = this
    if (!readExposure(features, seen)) return
    this.controls.of(seen.supplier).withdrawn(seen)
    if (this.pending.take(seen.ticket, features) > 0) return
    this.loadSeen(features)
    this.telling.add('undone', 1, now - seen.at, features)
    this.exposure('exposure', -1)
  }

  advance(now: number): void {
    if (!(now > 0 && now < 2 ** 48)) return
    this.now = now
    if (!(this.bornAt > 0)) this.bornAt = now
    this.hearSome(this.slices ? settledAtOnce : Number.POSITIVE_INFINITY)
    this.behind = !this.pending.advance(now, settledAtOnce, this.settleDue)
    this.controls.advance(now, this.delays.patience)
  }

  freeze(is: boolean): void {
    this.still = is
  }

  /** What holds now for a supplier, null where it never bid; for explanations and metrics. */
  explained(supplier: string, mode: BidFacts['mode']): Explained | null {
    return this.controls.known(supplierKey(supplier, mode))?.explained() ?? null
  }

  /** Notices have stopped, or take much longer than they did: silence says nothing now. */
  private get doubts(): boolean {
    if (this.wins < winsBeforeDoubt || this.due < dueBeforeDoubt) return false
    // Exposures are settled in bursts: what fell due at once is no silence.
    return this.now - this.wonAt > quiet
  }

  /** The time of an exposure has come: taught as if lost, or looked at again later. */
  private settle(bytes: Uint8Array, weight: number): number {
    const { seen } = this
    if (!readExposure(bytes, seen)) return 0
    const age = this.now - seen.at
    // Before the first notice nobody knows how long they take; where all go to other nodes, none comes here.
    if (this.wins === 0 && age < unknownMost) return this.now + unknownFor
    if (this.doubts && age < this.window) {
      this.delays.forget()
      // A loss at the end of the window at the latest.
      return Math.min(seen.at + this.window, this.now + this.window / 16)
    }
    // By what is known of delays now, which may be more than when it was sent.
    const wait = Math.min(this.window, this.delays.age(shareOf(seen.ticket)))
    if (age < 0.95 * wait && age < this.window)
      return seen.at + Math.min(this.window, this.delays.look(wait, age))
    this.loadSeen(bytes)
    // Long settled traffic, told late, is no silence now.
    if (this.pending.dueAt > this.wonAt) this.due += seen.winOut * weight
    this.lost(bytes, weight, age)
    return 0
  }

  /** W(price | facts) as the model stands. */
  chance(facts: BidFacts, price: number): number {
    const { inBa } = facts
    if (!(inBa >= 1e-9 && inBa < 1e9 && price >= 1e-9)) return 0
    if (!this.slices) this.hearSome()
    const bytes = new Uint8Array(featureBytes)
    describe(facts, bytes)
    keysOf(bytes, this.now, this.keys)
    this.curve.load(this.keys, Math.log(inBa), hasFloor(bytes))
    return this.curve.wins(Math.min(price, inBa))
  }

  delta(): Uint8Array {
    const { telling, controls, curve } = this
    const tail = controls.delta()
    if (telling.over) {
      telling.take()
      return writeRows(deltaMagic, curve.weights.delta(), tail)
    }
    curve.weights.forget()
    return writeTold(toldMagic, telling.take(), tail)
  }

  merge(delta: Uint8Array): void {
    // Others live, and most wins are of their bids.
    this.lostAt = Number.NaN
    const told = readTold(toldMagic, delta)
    if (told !== null && isRows(told.told)) {
      this.heard.add(told.told)
      if (this.heard.size > heardMost) this.hearSome()
      this.controls.merge(told.tail)
      return
    }
    const read = readRows(deltaMagic, delta)
    if (read === null) throw new DeltaError('a delta that is damaged, or no delta at all')
    this.curve.weights.merge(read.rows)
    this.controls.merge(read.tail)
  }

  private hearSome(most = Number.POSITIVE_INFINITY): void {
    if (this.heard.size > 0) this.heard.take(most, this.hearRow)
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
    const { curve, delays, controls, pending, heard } = this
    return yield* writeDense(snapshotMagic, curve.weights.both, () => {
      taken()
      const { now, wins } = this
      return writeTail({ now, wins, delays, controls }, pending, heard.saved())
    })
  }

  private restore(snapshot: Uint8Array, carries: boolean): void {
    const read = readDense(snapshotMagic, snapshot, 1, 2 * slotCount)
    if (read === null) throw new SnapshotError('a snapshot that is damaged, or of another version')
    this.curve.weights.restore(read.arrays[0]!)
    const { state, exposures, heard } = readTail(read.tail)
    this.now = state.now
    this.wins = state.wins
    this.delays.restore(state.delays)
    this.controls.restore(state.controls)
    if (isRows(heard)) this.heard.add(heard)
    if (!carries) this.lostAt = this.now
    else for (const { bytes, weight } of exposures) this.wait(bytes, weight)
  }

  /** An exposure of before the restart waits on. */
  private wait(bytes: Uint8Array, weight: number): void {
    if (!readExposure(bytes, this.seen)) return
    const { at } = this.seen
    // It was not due when the snapshot was made: its share of notices is one of those that come later.
    const come = this.delays.share(this.now - at)
    const dueOf = (ticket: number) =>
      at + Math.min(this.window, this.delays.age(come + (1 - come) * shareOf(ticket)))
    this.pending.place(bytes, at, dueOf, weight)
  }
}
