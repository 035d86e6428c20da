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

interface Replay {
  feed(line: LogLine): void
  report(): { counts: ReplayCounts; integrations: IntegrationReport[]; total: TotalReport }
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

export function createReplay(options: ReplayOptions): Replay {
  const { warmUp = 0 } = options
  const replica = new Replica(options.attributionWindow, options.create)
  const pending = new BoundedRows<PendingBid>(options.maxPending ?? 500_000)
  const delays = new DelayHistogram()
  const early = new BoundedRows<WinLine>(maxEarly)
  const evaluated = new Map<string, Evaluated>()
  const total = new ReplaySums()
  const counts = new ReplayCounts()
  let clock = 0

  function integrationOf(line: DecisionLine): Evaluated | null {
    const policy = options.policyOf(line.ssp, line.mode)
    const key = `${policy.mode} ${line.ssp}`
    let found = evaluated.get(key)
    if (found === undefined) {
      if (evaluated.size >= maxIntegrations) return null
      found = {
        ssp: line.ssp,
        policy,
        sums: new ReplaySums(),
        sinceHoldout: Number.POSITIVE_INFINITY,
        left: {},
      }
      evaluated.set(key, found)
    }
    return found
  }

  function add(entry: PendingBid, cleared: number | null, sign: 1 | -1): void {
    if (entry.row === null || !entry.counted) return
    entry.integration.sums.addRow(entry.row, cleared, sign)
    total.addRow(entry.row, cleared, sign)
  }

  function decided(line: DecisionLine): void {
    if (pending.has(line.id)) {
      counts.repeated++
      return
    }
    counts.decisions++
    const integration = integrationOf(line)
    if (integration === null) {
      counts.beyond++
      return
    }
    const counted = line.time >= counts.from! + warmUp
    if (!counted) counts.warmUp++
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
      Object.assign(entry, replica.decide(line, integration.policy, clock, hasHoldout))
      if (line.arm === 'holdout') integration.sinceHoldout = 0
      else if (isRandomized(line.arm)) integration.sinceHoldout++
    } else if (counted) integration.left[line.arm] = (integration.left[line.arm] ?? 0) + 1
    add(entry, null, 1)
    pending.set(line.id, entry)
    const win = early.get(line.id)
    if (win === undefined) return
    early.delete(line.id)
    won(win)
  }

  function won(line: WinLine): void {
    const entry = pending.get(line.id)
    if (entry === undefined) {
      if (early.has(line.id)) counts.repeated++
      else early.set(line.id, line)
      return
    }
    if (entry.cleared !== null) {
      counts.repeated++
      return
    }
    counts.wins++
    entry.cleared = line.cleared
    if (entry.row === null) return
    delays.addDelay(line.time - entry.time)
    add(entry, null, -1)
    add(entry, line.cleared, 1)
    const { integration, row, features } = entry
    replica.trainWin(integration.policy.mode, integration.ssp, row, features, line.cleared, clock)
  }

  /** The outcome of the bid is unknown, so it is in no figure. */
  function withdrawn(line: WithdrawnLine): void {
    const entry = pending.get(line.id)
    if (entry === undefined || entry.cleared !== null) return
    counts.withdrawn++
    pending.delete(line.id)
    add(entry, null, -1)
    replica.withdraw(entry.integration.policy.mode, entry.features, clock)
  }

  function feed(line: LogLine): void {
    if (line.kind === 'bad') {
      counts.bad++
      return
    }
    counts.from = Math.min(counts.from ?? line.time, line.time)
    counts.to = Math.max(counts.to ?? line.time, line.time)
    clock = Math.max(clock, line.time)
    replica.advance(clock)
    if (line.kind === 'decision') decided(line)
    else if (line.kind === 'win') won(line)
    else withdrawn(line)
  }

  /** Subtracts the bids that are too young. */
  function close(): void {
    const { from, to } = counts
    const youngest = to! - Math.min(options.attributionWindow, delays.quantile(delayQuantile))
    if (from === null || youngest <= from + warmUp) return
    for (const entry of pending.values()) {
      if (entry.time <= youngest || !entry.counted) continue
      add(entry, entry.cleared, -1)
      entry.counted = false
      counts.open++
    }
  }

  return {
    feed,
    report() {
      close()
      counts.unmatchedWins = early.dropped + early.size
      return { counts: { ...counts }, ...report([...evaluated.values()], total) }
    },
  }
}
