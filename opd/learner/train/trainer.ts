/** Trains the model: exposures as lost, when their notices are overdue; wins and losses by notice; and rows of other nodes. */
import type { NodeLearner, PastOutcome } from '../../learner-types.ts'
import type { SupplierStates } from '../control/supplier-states.ts'
import type { Curve } from '../curve/curve.ts'
import { atOwnPrice, type OwnDecision, writeExposure } from '../exposure.ts'
import { RefitSchedule } from '../refit/job.ts'
import type { RowArrays } from '../refit/settled-rows.ts'
import { CurveTrainer } from './curve-trainer.ts'
import { LostExposures } from './lost-exposures.ts'
import { NoticeDelays } from './notice-delays.ts'
import { PendingExposures } from './pending-exposures.ts'
import { Received } from './received-rows.ts'
import { Silence } from './silence.ts'
import { type Row, UpdateLog, type UpdatePart } from './update-log.ts'

/** Exposures that one `advance` settles (3 ms), and that each new exposure settles if more are due. */
const [settledAtOnce, settledBeside] = [300, 4]
/** Before the first notice: milliseconds after which an exposure is examined again, and until it is settled at the latest. */
const [unknownFor, unknownMost] = [5000, 15_000]

/** The exposure's own share: it is due when this share of notices has arrived. */
const shareOf = (ticket: number) => (Math.imul(ticket, 0x9e3779b1) >>> 0) / 2 ** 32

/** How a win trains: it cleared at the price that was sent, above, or below. */
const partOf = (cleared: number, sent: number): UpdatePart =>
  cleared > sent * 1.005 ? 'won' : cleared < sent * 0.999 ? 'saved' : 'paid'

/** The lowest winning price, if a win can have it; otherwise 0. */
const knownLeast = (least: number | undefined, sent: number) =>
  least !== undefined && least > 0 && least <= sent ? least : 0

/** What a snapshot has of a trainer. */
export interface Saved {
  state: {
    /** Milliseconds. */
    now: number
    silence: number[]
    /** Rows and time of the last refit. */
    refitted: number[]
    settled: number
    /** Wins that came before their exposure, by name: the lowest winning price. */
    early: [number, number][]
  }
  /** A sample, if `pending` is empty. */
  exposures: { bytes: Uint8Array; weight: number }[]
  pending: Uint8Array
  delays: Float64Array
  /** Whole rows. */
  received: Uint8Array
  rows: RowArrays
}

export class Trainer
  implements
    Pick<
      NodeLearner,
      'win' | 'lose' | 'withdraw' | 'settlePast' | 'winUnapplied' | 'advance' | 'refitJob'
    >
{
  readonly delays = new NoticeDelays()
  pending: PendingExposures
  readonly log = new UpdateLog()
  /** Updates of other nodes. */
  readonly received: Received
  readonly silence = new Silence()
  /** The time of the latest call. */
  now = 0
  private readonly suppliers: SupplierStates
  private readonly window: number
  private readonly training: CurveTrainer
  private readonly lostExposures = new LostExposures()
  private readonly schedule = new RefitSchedule()
  /** More exposures are due than `advance` settled. */
  private behind = false
  /** When the exposure that was read last is due, by its ticket. */
  private readonly dueOf = (ticket: number) => {
    const { sentAt } = this.seen
    const age = this.delays.age(shareOf(ticket))
    return sentAt + Math.min(this.window, this.delays.nextLook(age, Math.max(0, this.now - sentAt)))
  }
  private readonly settleDue = (bytes: Uint8Array, weight: number) => this.settle(bytes, weight)

  /**
   * `window`: milliseconds after which a bid without a notice is lost in any case. `slices`: rows of other nodes are trained in
   * slices. `trains`: this node trains the curve.
   */
  constructor(
    curve: Curve,
    suppliers: SupplierStates,
    window: number,
    { slices, trains }: { slices: boolean; trains: boolean },
  ) {
    this.suppliers = suppliers
    this.window = window
    this.pending = new PendingExposures(window)
    const training = new CurveTrainer(curve, trains)
    this.training = training
    this.received = new Received(
      slices,
      (row) => this.receive(row),
      (row) => training.repeat(row),
    )
  }

  /** The exposure that was read last, and its supplier. */
  private get seen() {
    return this.training.seen
  }
  private get supplier() {
    return this.suppliers.stateOf(this.seen.supplier)
  }
  get rows() {
    return this.training.settled
  }

  /**
   * Writes the exposure into the decision's bytes, and keeps it until it is trained.
   *
   * @param decision whose bytes are written
   * @param sent CPM in the base currency, at most the bid's own price
   * @param now milliseconds since the epoch
   */
  exposed(decision: OwnDecision, sent: number, now: number): void {
    const { seen, delays } = this
    const { bytes } = decision
    const time = now > 0 && now < 2 ** 48 ? now : this.now
    this.now = time
    this.lostExposures.seen(time)
    this.received.besideExposure()
    if (this.behind) this.behind = !this.pending.advance(time, settledBeside, this.settleDue)
    writeExposure(decision, sent, time)
    this.training.read(bytes)
    delays.exposed(seen.winOut, time)
    this.pending.addExposure(bytes, time, this.dueOf)
    this.supplier.exposed(seen, delays.noticeTimeout)
  }

  win(features: Uint8Array, clearedPrice: number, now: number, least?: number): void {
    this.received.beforeUse()
    const { seen } = this
    if (!(clearedPrice >= 0) || !this.training.read(features)) return
    const age = now - seen.sentAt
    const { supplier } = this
    if (this.lostExposures.has(seen.sentAt, () => this.delays.age(shareOf(seen.ticket)), now)) {
      // The exposure was lost before it trained the curve, so the win does not train it either.
      if (this.lostExposures.isCounted(seen.sentAt)) supplier.addWin(seen, clearedPrice, now, false)
      return
    }
    const weight = this.pending.takeExposure(seen.ticket, features)
    this.training.loadFeatures(features)
    if (weight > 0) this.lost(features, weight, age)
    const part = partOf(clearedPrice, seen.sent)
    this.log.addRow(part, 0, age, features)
    const known = knownLeast(least, seen.sent)
    this.trainWin(features, part, age, true, known)
    supplier.addWin(seen, clearedPrice, now)
    if (known > 0) supplier.learnLeast(seen, known)
  }

  lose(features: Uint8Array, least: number | null, now: number): void {
    this.received.beforeUse()
    const { seen } = this
    if (!this.training.read(features)) return
    const weight = this.pending.takeExposure(seen.ticket, features)
    if (weight > 0) {
      this.training.loadFeatures(features)
      this.lost(features, weight, now - seen.sentAt)
    }
    this.learnLost(features, least)
  }

  /** The lowest winning price of the bid that was read, which lost, if it can be that. */
  private learnLost(features: Uint8Array, least: number | null | undefined): void {
    const { seen } = this
    if (!(typeof least === 'number' && least > seen.sent)) return
    this.rows.setOutcome('lost', features, least)
    this.supplier.learnLeast(seen, least)
  }

  /** Trains with an exposure of this node, which is read and loaded, as lost, and reports it. */
  private lost(features: Uint8Array, weight: number, age: number): void {
    this.log.addRow('lost', weight, age, features)
    this.supplier.resolved(this.seen, weight)
    this.training.lost(features, weight)
  }

  /** Trains with a win, which is read and loaded. `here`: it was reported to this node. */
  private trainWin(
    features: Uint8Array,
    part: UpdatePart,
    age: number,
    here: boolean,
    least?: number,
  ): void {
    this.noticed(age, this.seen.sentAt + age, here)
    this.training.trainWin(features, part, least)
  }

  /**
   * A notice arrived.
   *
   * @param age milliseconds between the bid and its notice
   * @param now when it arrived, milliseconds since the epoch
   * @param here at this node; false: at another
   */
  noticed(age: number, now: number, here = false): void {
    if (age >= 0 && age < 1e12) this.delays.received(age, now, here)
    this.silence.endSilence(now)
  }

  /** Trains with a row of another node. A win that was reported there removes its exposure here. */
  private receive({ part, weight, age, features }: Row): void {
    const { training } = this
    if (!training.read(features)) return
    training.loadFeatures(features)
    if (part === 'lost') return training.lost(features, weight)
    const ownTicket = this.pending.takeExposure(this.seen.ticket, features)
    if (part === 'undone') {
      if (ownTicket === 0) training.undo(features)
      return
    }
    if (ownTicket > 0) this.lost(features, ownTicket, age)
    this.trainWin(features, part, age, false)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.received.beforeUse()
    const { seen, training } = this
    if (!training.read(features)) return
    if (this.pending.takeExposure(seen.ticket, features) > 0) return
    this.supplier.withdrawn(seen)
    training.loadFeatures(features)
    this.log.addRow('undone', 1, now - seen.sentAt, features)
    training.undo(features)
  }

  settlePast(sent: Uint8Array, outcome: PastOutcome, now: number): void {
    this.received.beforeUse()
    const { seen, training } = this
    const { cleared, minToWin: least } = outcome
    const features = outcome.applied ? sent : atOwnPrice(sent)
    if ((cleared !== null && !(cleared >= 0)) || !training.read(features)) return
    const { supplier } = this
    const age = Math.max(0, now - seen.sentAt)
    training.loadFeatures(features)
    this.lost(features, 1, age)
    supplier.settled(seen, cleared)
    if (cleared === null) return this.learnLost(features, least)
    const part = partOf(cleared, seen.sent)
    const known = knownLeast(least, seen.sent)
    this.log.addRow(part, 0, age, features)
    training.trainWin(features, part, known)
    if (known > 0) supplier.learnLeast(seen, known)
  }

  winUnapplied(features: Uint8Array, cleared: number, now: number, least?: number): void {
    const { seen } = this
    if (!(cleared >= 0) || !this.training.read(features)) return
    this.supplier.wonUnapplied(seen, cleared, now)
    this.noticed(now - seen.sentAt, now, true)
    this.withdraw(features, now)
    this.settlePast(features, { cleared, minToWin: least, applied: false }, now)
  }

  advance(now: number): void {
    this.now = now
    this.lostExposures.seen(now)
    this.received.advance()
    this.behind = !this.pending.advance(now, settledAtOnce, this.settleDue)
    this.suppliers.advance(now, this.delays.noticeTimeout)
  }

  /** Rows and time of the last refit. */
  get refitted(): number[] {
    return this.schedule.saved()
  }

  /** The settled rows and the fit of another node were taken. */
  resumed(): void {
    this.schedule.fitted(this.rows.settled, this.now)
  }

  refitJob(now: number): Uint8Array | null {
    return this.schedule.job(this.rows, now, this.delays.shares)
  }

  /** Settles an exposure that is due: it trains as lost. Returns 0, or the time at which it is examined again. */
  private settle(bytes: Uint8Array, weight: number): number {
    const { seen, delays, window, now } = this
    if (!this.training.read(bytes)) return 0
    const age = now - seen.sentAt
    // Before the first notice the delays are not known. If all notices go to other nodes, none ever arrives here.
    if (this.silence.wins === 0 && age < unknownMost) return now + unknownFor
    if (age < window && this.silence.hasStopped(now)) {
      delays.forget()
      // It is lost at the end of the window at the latest.
      return Math.min(seen.sentAt + window, now + window / 16)
    }
    // The delays may have changed since the bid was sent.
    const wait = Math.min(window, delays.age(shareOf(seen.ticket)))
    if (age < 0.95 * wait && age < window)
      return seen.sentAt + Math.min(window, delays.nextLook(wait, age))
    this.training.loadFeatures(bytes)
    this.silence.settled(seen.winOut * weight, this.pending.dueAt)
    this.lost(bytes, weight, age)
    return 0
  }

  /** Other nodes exist, and most wins are of their bids. */
  accompanied(): void {
    this.lostExposures.forget()
  }

  /**
   * Restores what a snapshot has, in slices.
   *
   * @param saved that part of the snapshot
   * @param carries false: a crash lost the pending exposures
   */
  *restoring(
    { state, exposures, delays, pending, received, rows }: Saved,
    carries: boolean,
  ): Generator<undefined, void> {
    const { now, settled, early, silence, refitted } = state
    this.now = now
    yield* this.rows.restoring(rows, early)
    this.rows.settled = settled
    this.silence.restoreCounts(silence)
    this.schedule.fitted(refitted[0]!, refitted[1]!)
    this.delays.restoreDelays(delays)
    this.received.addRows(received)
    if (!carries) {
      this.lostExposures.lose(now)
      this.suppliers.tried.forgetPending()
    } else if (pending.length > 0) this.pending.restoreExposures(pending)
    else for (const { bytes, weight } of exposures) this.keep(bytes, weight)
  }

  /** Takes the exposures of the trainer that this one replaces in the same process: they were not lost. */
  takePending({ pending, lostExposures }: Trainer): void {
    this.pending = pending
    this.lostExposures.startedWith(lostExposures)
  }

  /** Keeps an exposure that was pending before the restart. */
  private keep(bytes: Uint8Array, weight: number): void {
    if (!this.training.read(bytes)) return
    const { sentAt } = this.seen
    // It was not due when the snapshot was made, so its share is one of those that are still to come.
    const come = this.delays.share(this.now - sentAt)
    const dueOf = (ticket: number) =>
      sentAt + Math.min(this.window, this.delays.age(come + (1 - come) * shareOf(ticket)))
    this.pending.place(bytes, sentAt, dueOf, weight)
  }
}
