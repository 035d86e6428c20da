/** What is taught, and when: exposures when their notice would have come, wins as they come, and what other nodes tell. */
import type { Controls } from '../control/supplier-states.ts'
import type { Curve } from '../curve/curve.ts'
import type { OwnDecision } from '../decide/own.ts'
import { seal } from '../exposure.ts'
import { RefitSchedule } from '../refit/schedule.ts'
import type { SettledRows } from '../refit/settled-rows.ts'
import { Lessons } from './lessons.ts'
import { Delays } from './notice-delay.ts'
import { Pending } from './pending-exposures.ts'
import { Receiving } from './receiving.ts'
import { LifeBefore, Silence } from './silence.ts'
import { type Row, type TaughtPart, Telling } from './update-log.ts'

/** Exposures settled by one call: 3 ms. Beyond these, some are settled beside each exposure. */
const settledAtOnce = 300
/** Milliseconds between looks at an exposure before any notice came, and most that it waits for one. */
const unknownFor = 5000
const unknownMost = 15_000

const shareOf = (ticket: number) => (Math.imul(ticket, 0x9e3779b1) >>> 0) / 2 ** 32

export class Teaching {
  readonly delays = new Delays()
  readonly pending: Pending
  readonly telling = new Telling()
  /** Updates of other nodes. */
  readonly received: Receiving
  private readonly controls: Controls
  private readonly window: number
  private readonly lessons: Lessons
  private readonly seen: Lessons['seen']
  private readonly before = new LifeBefore()
  private readonly silence = new Silence()
  get wins(): number {
    return this.silence.wins
  }
  get rows(): SettledRows {
    return this.lessons.settled
  }
  private behind = false
  private readonly schedule = new RefitSchedule()
  /** The latest time that was given. */
  now = 0
  /** When the exposure that was read last is looked at; a ticket's own share of notices has come by then. */
  private readonly dueOf = (ticket: number) => {
    const { at } = this.seen
    const age = this.delays.age(shareOf(ticket))
    return at + Math.min(this.window, this.delays.look(age, Math.max(0, this.now - at)))
  }
  private readonly settleDue = (bytes: Uint8Array, weight: number) => this.settle(bytes, weight)

  /**
   * `window`: milliseconds after which silence is a loss. `slices`: what others tell is taught bit by bit. `trains`: the
   * curve is trained here.
   */
  constructor(
    curve: Curve,
    controls: Controls,
    window: number,
    { slices, trains }: { slices: boolean; trains: boolean },
  ) {
    this.lessons = new Lessons(curve, trains)
    this.seen = this.lessons.seen
    this.controls = controls
    this.window = window
    this.received = new Receiving(
      slices,
      (row) => this.receive(row),
      (row) => this.lessons.again(row),
    )
    this.pending = new Pending(window)
  }

  /** Keeps the exposure until it is taught; seals it into the decision's bytes. */
  exposed(decision: OwnDecision, sent: number, now: number): void {
    const { bytes } = decision
    const at = now > 0 && now < 2 ** 48 ? now : this.now
    this.now = at
    this.before.seen(at)
    this.received.beside()
    if (this.behind) this.behind = !this.pending.advance(at, 4, this.settleDue)
    seal(bytes, decision, decision, sent, at)
    this.lessons.read(bytes)
    const { supplier, publisher, seat, winIn, winOut } = this.seen
    this.delays.exposed(decision.arm === 'holdout' ? winIn : winOut, at)
    this.pending.add(bytes, at, this.dueOf)
    this.controls.of(supplier).exposed(this.seen, this.delays.patience, publisher, seat)
  }

  win(features: Uint8Array, clearedPrice: number, now: number, least?: number): void {
    this.received.beforeAsked()
    const { seen } = this
    if (!(clearedPrice >= 0) || !this.lessons.read(features)) return
    const age = now - seen.at
    if (this.isLost(now)) {
      if (this.before.knew(seen.at))
        this.controls.of(seen.supplier).won(seen, clearedPrice, now, seen.publisher, seen.seat)
      return
    }
    const weight = this.pending.take(seen.ticket, features)
    this.lessons.load(features)
    if (weight > 0) this.lost(features, weight, age)
    const part =
      clearedPrice > seen.sent * 1.005 ? 'won' : clearedPrice < seen.sent * 0.999 ? 'saved' : 'paid'
    this.telling.add(part, 0, age, features)
    const known = least !== undefined && least > 0 && least <= seen.sent ? least : 0
    this.won(features, part, age, true, known)
    const controls = this.controls.of(seen.supplier)
    controls.won(seen, clearedPrice, now, seen.publisher, seen.seat)
    if (known > 0) controls.knew(seen, known)
  }

  /** A loss notice: the exposure settles at once. */
  lose(features: Uint8Array, least: number | null, now: number): void {
    this.received.beforeAsked()
    const { seen } = this
    if (!this.lessons.read(features)) return
    const weight = this.pending.take(seen.ticket, features)
    if (weight > 0) {
      this.lessons.load(features)
      this.lost(features, weight, now - seen.at)
    }
    if (!(least !== null && least > seen.sent)) return
    this.lessons.settled.became('lost', features, least)
    this.controls.of(seen.supplier).knew(seen, least)
  }

  /** Its exposure went with the life before, untaught: the win read last teaches nothing either. */
  private isLost(now: number): boolean {
    const { at, ticket } = this.seen
    return this.before.took(at, () => this.delays.age(shareOf(ticket)), now)
  }

  /** An own exposure, read and loaded, trains as if lost, and is reported. */
  private lost(features: Uint8Array, weight: number, age: number): void {
    this.telling.add('lost', weight, age, features)
    this.lessons.lost(features, weight)
  }

  /** A win, read and loaded, is taught. */
  private won(
    features: Uint8Array,
    part: TaughtPart,
    age: number,
    here: boolean,
    least?: number,
  ): void {
    this.noticed(age, this.seen.at + age, here)
    this.lessons.won(features, part, least)
  }

  /** A notice came, here or at another node. */
  noticed(age: number, now: number, here = false): void {
    if (age >= 0 && age < 1e12) this.delays.came(age, now, here)
    this.silence.won(now)
  }

  /** What another node taught its model is taught to this one; a win that was reported there takes its exposure out here. */
  private receive({ part, weight, age, features }: Row): void {
    const { seen } = this
    if (!this.lessons.read(features)) return
    this.lessons.load(features)
    const own = part === 'lost' ? 0 : this.pending.take(seen.ticket, features)
    if (own > 0 && part !== 'undone') this.lost(features, own, age)
    if (part === 'lost') this.lessons.lost(features, weight)
    else if (part !== 'undone') this.won(features, part, age, false)
    else if (own === 0) this.lessons.undo(features)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.received.beforeAsked()
    const { seen } = this
    if (!this.lessons.read(features)) return
    this.controls.of(seen.supplier).withdrawn(seen)
    if (this.pending.take(seen.ticket, features) > 0) return
    this.lessons.load(features)
    this.telling.add('undone', 1, now - seen.at, features)
    this.lessons.undo(features)
  }

  /** Settles what is due, a slice of it. */
  advance(now: number): void {
    this.now = now
    this.before.seen(now)
    this.received.advance()
    this.behind = !this.pending.advance(now, settledAtOnce, this.settleDue)
    this.controls.advance(now, this.delays.patience)
  }

  /** The rows and the fit of another node were taken. */
  resumed(): void {
    this.schedule.fitted(this.rows.settled, this.now)
  }

  refitJob(now: number, before: Uint8Array): Uint8Array | null {
    return this.schedule.job(this.rows, now, this.delays.patience, before)
  }

  /** The time of an exposure has come: taught as if lost, or looked at again later. */
  private settle(bytes: Uint8Array, weight: number): number {
    const { seen } = this
    if (!this.lessons.read(bytes)) return 0
    const age = this.now - seen.at
    // Before the first notice nobody knows how long they take; where all go to other nodes, none comes here.
    if (this.wins === 0 && age < unknownMost) return this.now + unknownFor
    if (age < this.window && this.silence.doubts(this.now)) {
      this.delays.forget()
      // A loss at the end of the window at the latest.
      return Math.min(seen.at + this.window, this.now + this.window / 16)
    }
    // By what is known of delays now, which may be more than when it was sent.
    const wait = Math.min(this.window, this.delays.age(shareOf(seen.ticket)))
    if (age < 0.95 * wait && age < this.window)
      return seen.at + Math.min(this.window, this.delays.look(wait, age))
    this.lessons.load(bytes)
    this.silence.settled(seen.winOut * weight, this.pending.dueAt)
    this.lost(bytes, weight, age)
    return 0
  }

  /** Others live, and most wins are of their bids: what a crash here lost is no matter. */
  accompanied(): void {
    this.before.forget()
  }

  /** `settled`: bids that did. `exposures` null: they went with a life that ended out of order. */
  restore(
    { now, wins, settled }: Record<'now' | 'wins' | 'settled', number>,
    received: Uint8Array,
    exposures: { bytes: Uint8Array; weight: number }[] | null,
  ): void {
    this.now = now
    this.silence.wins = wins
    this.lessons.settled.settled = settled
    this.received.add(received)
    if (exposures === null) this.before.ended(now)
    else for (const { bytes, weight } of exposures) this.wait(bytes, weight)
  }

  /** An exposure of before the restart waits on. */
  private wait(bytes: Uint8Array, weight: number): void {
    if (!this.lessons.read(bytes)) return
    const { at } = this.seen
    // It was not due when the snapshot was made: its share of notices is one of those that come later.
    const come = this.delays.share(this.now - at)
    const dueOf = (ticket: number) =>
      at + Math.min(this.window, this.delays.age(come + (1 - come) * shareOf(ticket)))
    this.pending.place(bytes, at, dueOf, weight)
  }
}
