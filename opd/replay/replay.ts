/** Evaluates a policy on a recorded decision log. Feed it lines in time order. Pure, and bounded in memory. */
import { armRules } from '../shared/arms.ts'
import { ReplaySums, type Row } from './estimates.ts'
import type { DecisionLine, LogLine, WinLine, WithdrawnLine } from './line.ts'
import { isRandomized } from './match.ts'
import { BoundedRows, DelayHistogram } from './pending.ts'
import { type CreateLearner, type ReplayPolicy, Replica } from './replica.ts'
import { type Evaluated, type IntegrationReport, report, type TotalReport } from './report.ts'

interface ReplayOptions {
  /** Milliseconds. */
  attributionWindow: number
  /** The policy to evaluate, by integration and logged mode. */
  policyOf: (ssp: string, mode: DecisionLine['mode']) => ReplayPolicy
  /** Bids that are kept until their win. */
  maxPending?: number
  /** Milliseconds at the start of the log. Its bids train the model and are in no figure. */
  warmUp?: number
  create?: CreateLearner
}

export class ReplayCounts {
  decisions = 0
  wins = 0
  withdrawn = 0
  bad = 0
  /** Wins whose decision is not in the log, or was dropped. */
  unmatchedWins = 0
  /** Lines that repeat a decision or a win. */
  repeated = 0
  /** Lines of integrations beyond the bound. They are ignored. */
  beyond = 0
  /** Decisions that only trained the model. */
  warmUp = 0
  /** Decisions at the end of the log whose wins may come later. They are in no figure. */
  open = 0
  from: number | null = null
  to: number | null = null
}

const none = new Uint8Array()
/** With a holdout of 1 %, a run of this many bids without a holdout bid has a probability of 10^-9. */
const holdoutWithin = 2000
const maxIntegrations = 10_000
/** Wins may come before their decision if logs of several nodes are merged. */
const maxEarly = 10_000

/** Bids at the end that are younger than this quantile of notice delays do not count as lost. In a shorter log all bids count. */
const delayQuantile = 0.99

interface PendingBid {
  time: number
  integration: Evaluated
  /** false: trains the model, and is in no figure. */
  counted: boolean
  row: Row | null
  features: Uint8Array
  /** Cleared price; null: not won so far. */
  cleared: number | null
}

/** Replays a decision log, line after line, beside the model that the log came from. */
export class Replay {
  private readonly options: ReplayOptions
  private readonly warmUp: number
  private readonly replica: Replica
  private readonly pending: BoundedRows<PendingBid>
  private readonly delays = new DelayHistogram()
  private readonly early = new BoundedRows<WinLine>(maxEarly)
  private readonly evaluated = new Map<string, Evaluated>()
  private readonly total = new ReplaySums()
  private readonly counts = new ReplayCounts()
  private clock = 0

  constructor(options: ReplayOptions) {
    this.options = options
    this.warmUp = options.warmUp ?? 0
    this.replica = new Replica(options.attributionWindow, options.create)
    this.pending = new BoundedRows(options.maxPending ?? 500_000)
  }

  private integrationOf(line: DecisionLine): Evaluated | null {
    const policy = this.options.policyOf(line.ssp, line.mode)
    const key = `${policy.mode} ${line.ssp}`
    let found = this.evaluated.get(key)
    if (found === undefined) {
      if (this.evaluated.size >= maxIntegrations) return null
      found = {
        ssp: line.ssp,
        policy,
        sums: new ReplaySums(),
        sinceHoldout: Number.POSITIVE_INFINITY,
        left: {},
      }
      this.evaluated.set(key, found)
    }
    return found
  }

  private addToSums(entry: PendingBid, cleared: number | null, sign: 1 | -1): void {
    if (entry.row === null || !entry.counted) return
    entry.integration.sums.addRow(entry.row, cleared, sign)
    this.total.addRow(entry.row, cleared, sign)
  }

  private addDecision(line: DecisionLine): void {
    if (this.pending.has(line.id)) {
      this.counts.repeated++
      return
    }
    this.counts.decisions++
    const integration = this.integrationOf(line)
    if (integration === null) {
      this.counts.beyond++
      return
    }
    const counted = line.time >= this.counts.from! + this.warmUp
    if (!counted) this.counts.warmUp++
    const entry: PendingBid = {
      time: line.time,
      integration,
      counted,
      row: null,
      features: none,
      cleared: null,
    }
    if (armRules[line.arm].asks) {
      const hasHoldout = integration.sinceHoldout < holdoutWithin
      Object.assign(entry, this.replica.decide(line, integration.policy, this.clock, hasHoldout))
      if (line.arm === 'holdout') integration.sinceHoldout = 0
      else if (isRandomized(line.arm)) integration.sinceHoldout++
    } else if (counted) integration.left[line.arm] = (integration.left[line.arm] ?? 0) + 1
    this.addToSums(entry, null, 1)
    this.pending.set(line.id, entry)
    const win = this.early.get(line.id)
    if (win === undefined) return
    this.early.delete(line.id)
    this.addWin(win)
  }

  private addWin(line: WinLine): void {
    const entry = this.pending.get(line.id)
    if (entry === undefined) {
      if (this.early.has(line.id)) this.counts.repeated++
      else this.early.set(line.id, line)
      return
    }
    if (entry.cleared !== null) {
      this.counts.repeated++
      return
    }
    this.counts.wins++
    entry.cleared = line.cleared
    if (entry.row === null) return
    this.delays.addDelay(line.time - entry.time)
    this.addToSums(entry, null, -1)
    this.addToSums(entry, line.cleared, 1)
    const { integration, row, features } = entry
    this.replica.trainWin(
      integration.policy.mode,
      integration.ssp,
      row,
      features,
      line.cleared,
      this.clock,
    )
  }

  /** The outcome of the bid is unknown, so it is in no figure. */
  private addWithdrawal(line: WithdrawnLine): void {
    const entry = this.pending.get(line.id)
    if (entry === undefined || entry.cleared !== null) return
    this.counts.withdrawn++
    this.pending.delete(line.id)
    this.addToSums(entry, null, -1)
    this.replica.withdraw(entry.integration.policy.mode, entry.features, this.clock)
  }

  /** @param line the next one by time; a win may precede its decision */
  feed(line: LogLine): void {
    if (line.kind === 'bad') {
      this.counts.bad++
      return
    }
    this.counts.from = Math.min(this.counts.from ?? line.time, line.time)
    this.counts.to = Math.max(this.counts.to ?? line.time, line.time)
    this.clock = Math.max(this.clock, line.time)
    this.replica.advance(this.clock)
    if (line.kind === 'decision') this.addDecision(line)
    else if (line.kind === 'win') this.addWin(line)
    else this.addWithdrawal(line)
  }

  /** Subtracts the bids that are too young. */
  private leaveOutYoung(): void {
    const { from, to } = this.counts
    const youngest =
      to! - Math.min(this.options.attributionWindow, this.delays.quantile(delayQuantile))
    if (from === null || youngest <= from + this.warmUp) return
    for (const entry of this.pending.values()) {
      if (entry.time <= youngest || !entry.counted) continue
      this.addToSums(entry, entry.cleared, -1)
      entry.counted = false
      this.counts.open++
    }
  }

  /** Ends the replay: bids that are too young to count as lost are left out. */
  report(): { counts: ReplayCounts; integrations: IntegrationReport[]; total: TotalReport } {
    this.leaveOutYoung()
    this.counts.unmatchedWins = this.early.dropped + this.early.size
    return { counts: { ...this.counts }, ...report([...this.evaluated.values()], this.total) }
  }
}
