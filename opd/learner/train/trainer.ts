/** What trains the model, and when: exposures when their notice would have come, wins as they come, and rows of other nodes. */
import type { SupplierStates } from '../control/supplier-states.ts'
import type { Curve } from '../curve/curve.ts'
import { type OwnDecision, seal } from '../exposure.ts'
import { RefitSchedule } from '../refit/job.ts'
import { CurveTrainer } from './curve-trainer.ts'
import { NoticeDelays } from './notice-delays.ts'
import { PendingExposures } from './pending-exposures.ts'
import { Received } from './received-rows.ts'
import { LostExposures, Silence } from './silence.ts'
import { type Row, UpdateLog, type UpdatePart } from './update-log.ts'

/** Exposures settled by one call: 3 ms. Beyond these, some are settled beside each exposure. */
const [settledAtOnce, settledBeside] = [300, 4]
/** Milliseconds between looks at an exposure before any notice came, and most that it waits for one. */
const [unknownFor, unknownMost] = [5000, 15_000]

const shareOf = (ticket: number) => (Math.imul(ticket, 0x9e3779b1) >>> 0) / 2 ** 32

export class Trainer {
  readonly delays = new NoticeDelays()
  readonly pending: PendingExposures
  readonly log = new UpdateLog()
  /** Updates of other nodes. */
  readonly received: Received
  readonly silence = new Silence()
  /** The latest time that was given. */
  now = 0
  private readonly controls: SupplierStates
  private readonly window: number
  private readonly training: CurveTrainer
  private readonly before = new LostExposures()
  private readonly schedule = new RefitSchedule()
  private behind = false
  /** When the exposure that was read last is looked at; a ticket's own share of notices has come by then. */
  private readonly dueOf = (ticket: number) => {
    const { at } = this.seen
    const age = this.delays.age(shareOf(ticket))
    return at + Math.min(this.window, this.delays.look(age, Math.max(0, this.now - at)))
  }
  private readonly settleDue = (bytes: Uint8Array, weight: number) => this.settle(bytes, weight)

  /**
   * `window`: milliseconds after which silence is a loss. `slices`: rows of others are trained with bit by bit. `trains`: the
   * curve is trained here.
   */
  constructor(
    curve: Curve,
    controls: SupplierStates,
    window: number,
    { slices, trains }: { slices: boolean; trains: boolean },
  ) {
    this.controls = controls
    this.window = window
    this.pending = new PendingExposures(window)
    const training = new CurveTrainer(curve, trains)
    this.training = training
    this.received = new Received(
      slices,
      (row) => this.receive(row),
      (row) => training.again(row),
    )
  }

  /** The exposure read last. */
  private get seen() {
    return this.training.seen
  }
  get rows() {
    return this.training.settled
  }

  /** Keeps the exposure until it is trained with; seals it into the decision's bytes. */
  exposed(decision: OwnDecision, sent: number, now: number): void {
    const { seen, delays } = this
    const { bytes } = decision
    const at = now > 0 && now < 2 ** 48 ? now : this.now
    this.now = at
    this.before.seen(at)
    this.received.beside()
    if (this.behind) this.behind = !this.pending.advance(at, settledBeside, this.settleDue)
    seal(decision, sent, at)
    this.training.read(bytes)
    delays.exposed(seen.winOut, at)
    this.pending.add(bytes, at, this.dueOf)
    this.controls.of(seen.supplier).exposed(seen, delays.noticeTimeout)
  }

  win(features: Uint8Array, clearedPrice: number, now: number, least?: number): void {
    this.received.beforeAsked()
    const { seen } = this
    if (!(clearedPrice >= 0) || !this.training.read(features)) return
    const age = now - seen.at
    const count = () => this.controls.of(seen.supplier).won(seen, clearedPrice, now)
    if (this.before.took(seen.at, () => this.delays.age(shareOf(seen.ticket)), now)) {
      // Its exposure was lost in a crash before it was trained with, so the win trains nothing either.
      if (this.before.knew(seen.at)) count()
      return
    }
    const weight = this.pending.take(seen.ticket, features)
    this.training.load(features)
    if (weight > 0) this.lost(features, weight, age)
    const part =
      clearedPrice > seen.sent * 1.005 ? 'won' : clearedPrice < seen.sent * 0.999 ? 'saved' : 'paid'
    this.log.add(part, 0, age, features)
    const known = least !== undefined && least > 0 && least <= seen.sent ? least : 0
    this.won(features, part, age, true, known)
    count()
    if (known > 0) this.controls.of(seen.supplier).learnLeast(seen, known)
  }

  /** A loss notice: the exposure settles at once. */
  lose(features: Uint8Array, least: number | null, now: number): void {
    this.received.beforeAsked()
    const { seen } = this
    if (!this.training.read(features)) return
    const weight = this.pending.take(seen.ticket, features)
    if (weight > 0) {
      this.training.load(features)
      this.lost(features, weight, now - seen.at)
    }
    if (!(least !== null && least > seen.sent)) return
    this.rows.became('lost', features, least)
    this.controls.of(seen.supplier).learnLeast(seen, least)
  }

  /** An own exposure, read and loaded, trains as if lost, and is reported. */
  private lost(features: Uint8Array, weight: number, age: number): void {
    this.log.add('lost', weight, age, features)
    this.training.lost(features, weight)
  }

  /** A win, read and loaded. */
  private won(
    features: Uint8Array,
    part: UpdatePart,
    age: number,
    here: boolean,
    least?: number,
  ): void {
    this.noticed(age, this.seen.at + age, here)
    this.training.won(features, part, least)
  }

  /** A notice came, here or at another node. */
  noticed(age: number, now: number, here = false): void {
    if (age >= 0 && age < 1e12) this.delays.came(age, now, here)
    this.silence.won(now)
  }

  /** What another node trained its model with; a win that was reported there takes its exposure out here. */
  private receive({ part, weight, age, features }: Row): void {
    const { training } = this
    if (!training.read(features)) return
    training.load(features)
    if (part === 'lost') return training.lost(features, weight)
    const own = this.pending.take(this.seen.ticket, features)
    if (part === 'undone') {
      if (own === 0) training.undo(features)
      return
    }
    if (own > 0) this.lost(features, own, age)
    this.won(features, part, age, false)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.received.beforeAsked()
    const { seen, training } = this
    if (!training.read(features)) return
    this.controls.of(seen.supplier).withdrawn(seen)
    if (this.pending.take(seen.ticket, features) > 0) return
    training.load(features)
    this.log.add('undone', 1, now - seen.at, features)
    training.undo(features)
  }

  /** Settles what is due, a slice of it. */
  advance(now: number): void {
    this.now = now
    this.before.seen(now)
    this.received.advance()
    this.behind = !this.pending.advance(now, settledAtOnce, this.settleDue)
    this.controls.advance(now, this.delays.noticeTimeout)
  }

  /** The rows and the fit of another node were taken. */
  resumed(): void {
    this.schedule.fitted(this.rows.settled, this.now)
  }

  refitJob(now: number, before: Uint8Array): Uint8Array | null {
    return this.schedule.job(this.rows, now, this.delays.noticeTimeout, before)
  }

  /** The time of an exposure has come: it trains as if lost, or is looked at again later. */
  private settle(bytes: Uint8Array, weight: number): number {
    const { seen, delays, window, now } = this
    if (!this.training.read(bytes)) return 0
    const age = now - seen.at
    // Before the first notice it is not known how long they take; where all go to other nodes, none comes here.
    if (this.silence.wins === 0 && age < unknownMost) return now + unknownFor
    if (age < window && this.silence.doubts(now)) {
      delays.forget()
      // A loss at the end of the window at the latest.
      return Math.min(seen.at + window, now + window / 16)
    }
    // By what is known of delays now, which may be more than when it was sent.
    const wait = Math.min(window, delays.age(shareOf(seen.ticket)))
    if (age < 0.95 * wait && age < window) return seen.at + Math.min(window, delays.look(wait, age))
    this.training.load(bytes)
    this.silence.settled(seen.winOut * weight, this.pending.dueAt)
    this.lost(bytes, weight, age)
    return 0
  }

  /** Others live, and most wins are of their bids: what a crash here lost is no matter. */
  accompanied(): void {
    this.before.forget()
  }

  /** `settled`: bids that did. `exposures` null: they were lost with a life that ended out of order. */
  restore(
    { now, wins, settled }: Record<'now' | 'wins' | 'settled', number>,
    received: Uint8Array,
    exposures: { bytes: Uint8Array; weight: number }[] | null,
  ): void {
    this.now = now
    this.silence.wins = wins
    this.rows.settled = settled
    this.received.add(received)
    if (exposures === null) this.before.ended(now)
    else for (const { bytes, weight } of exposures) this.wait(bytes, weight)
  }

  /** An exposure of before the restart waits on. */
  private wait(bytes: Uint8Array, weight: number): void {
    if (!this.training.read(bytes)) return
    const { at } = this.seen
    // It was not due when the snapshot was made: its share of notices is one of those that come later.
    const come = this.delays.share(this.now - at)
    const dueOf = (ticket: number) =>
      at + Math.min(this.window, this.delays.age(come + (1 - come) * shareOf(ticket)))
    this.pending.place(bytes, at, dueOf, weight)
  }
}
