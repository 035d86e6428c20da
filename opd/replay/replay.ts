/**
 * What OPD would have done on a recorded decision log (shadow evaluation). Pure: lines in time order go in, a report
 * comes out; memory is bounded, however long the log.
 */

import type { createLearner } from '../learner.ts'
import { armRules } from '../pricing/arms.ts'
import { Delays } from './delays.ts'
import type { BadLine, DecisionLine, LogLine, WinLine, WithdrawnLine } from './line.ts'
import { drawn } from './match.ts'
import { BoundedRows } from './pending.ts'
import { type ReplayPolicy, Replica } from './replica.ts'
import { type Evaluated, type IntegrationReport, report, type TotalReport } from './report.ts'
import { type Row, Sums } from './sums.ts'

interface ReplayOptions {
  /** Milliseconds. */
  attributionWindow: number
  /** The policy to evaluate, by integration and the mode that its log says. */
  policyOf: (ssp: string, mode: DecisionLine['mode']) => ReplayPolicy
  /** Bids kept until their win comes. */
  maxPending?: number
  /** Milliseconds from the first line whose bids are learned from and not in the figures. */
  warmUp?: number
  create?: typeof createLearner
}

export interface ReplayCounts {
  decisions: number
  wins: number
  withdrawn: number
  bad: number
  /** Wins whose decision is not in the log, or was given up. */
  unmatchedWins: number
  /** Lines that repeat a decision or a win. */
  repeated: number
  /** Integrations beyond the bound, their lines left out. */
  beyond: number
  /** Decisions that were learned from alone. */
  warmUp: number
  /** Decisions at the end of the log whose wins may still come: in no figure. */
  open: number
  from: number | null
  to: number | null
}

interface Replay {
  feed(line: LogLine | BadLine): void
  report(): { counts: ReplayCounts; integrations: IntegrationReport[]; total: TotalReport }
}

const none = new Uint8Array()
/** A holdout of 1 % is silent this long once in 10^9 bids. */
const holdoutWithin = 2000
const maxIntegrations = 10_000
/** A win may stand before its decision where logs of several nodes are merged. */
const maxEarly = 10_000

/** Bids younger at the end than most wins took are not called lost; of a log that is shorter all are counted. */
const mostWins = 0.99

interface Awaiting {
  time: number
  of: Evaluated
  /** false: learned from, and in no figure. */
  counted: boolean
  row: Row | null
  features: Uint8Array
  /** null: not won so far. */
  cleared: number | null
}

export function createReplay(options: ReplayOptions): Replay {
  const { warmUp = 0 } = options
  const replica = new Replica(options.attributionWindow, options.create)
  const awaiting = new BoundedRows<Awaiting>(options.maxPending ?? 500_000)
  const delays = new Delays()
  const early = new BoundedRows<WinLine>(maxEarly)
  const evaluated = new Map<string, Evaluated>()
  const total = new Sums()
  const counts: ReplayCounts = {
    decisions: 0,
    wins: 0,
    withdrawn: 0,
    bad: 0,
    unmatchedWins: 0,
    repeated: 0,
    beyond: 0,
    warmUp: 0,
    open: 0,
    from: null,
    to: null,
  }
  let clock = 0

  function of(line: DecisionLine): Evaluated | null {
    const policy = options.policyOf(line.ssp, line.mode)
    const key = `${policy.mode} ${line.ssp}`
    let found = evaluated.get(key)
    if (found === undefined) {
      if (evaluated.size >= maxIntegrations) return null
      found = {
        ssp: line.ssp,
        policy,
        sums: new Sums(),
        sinceHoldout: Number.POSITIVE_INFINITY,
        left: {},
      }
      evaluated.set(key, found)
    }
    return found
  }

  function add(entry: Awaiting, cleared: number | null, sign: 1 | -1): void {
    if (entry.row === null || !entry.counted) return
    entry.of.sums.add(entry.row, cleared, sign)
    total.add(entry.row, cleared, sign)
  }

  function decided(line: DecisionLine): void {
    if (awaiting.has(line.id)) {
      counts.repeated++
      return
    }
    counts.decisions++
    const own = of(line)
    if (own === null) {
      counts.beyond++
      return
    }
    const counted = line.time >= counts.from! + warmUp
    if (!counted) counts.warmUp++
    const entry: Awaiting = {
      time: line.time,
      of: own,
      counted,
      row: null,
      features: none,
      cleared: null,
    }
    if (armRules[line.arm].asks) {
      const holds = own.sinceHoldout < holdoutWithin
      Object.assign(entry, replica.decide(line, own.policy, clock, holds))
      if (line.arm === 'holdout') own.sinceHoldout = 0
      else if (drawn(line.arm)) own.sinceHoldout++
    } else if (counted) own.left[line.arm] = (own.left[line.arm] ?? 0) + 1
    add(entry, null, 1)
    awaiting.put(line.id, entry)
    const win = early.take(line.id)
    if (win !== undefined) won(win)
  }

  function won(line: WinLine): void {
    const entry = awaiting.get(line.id)
    if (entry === undefined) {
      if (early.has(line.id)) counts.repeated++
      else early.put(line.id, line)
      return
    }
    if (entry.cleared !== null) {
      counts.repeated++
      return
    }
    counts.wins++
    entry.cleared = line.cleared
    if (entry.row === null) return
    delays.add(line.time - entry.time)
    add(entry, null, -1)
    add(entry, line.cleared, 1)
    const { of: own, row, features } = entry
    replica.won(own.policy.mode, own.ssp, row, features, line.cleared, clock)
  }

  /** What became of the bid is not known: it counts for nothing. */
  function withdrawn(line: WithdrawnLine): void {
    const entry = awaiting.get(line.id)
    if (entry === undefined || entry.cleared !== null) return
    counts.withdrawn++
    awaiting.take(line.id)
    add(entry, null, -1)
    replica.withdraw(entry.of.policy.mode, entry.features, clock)
  }

  function feed(line: LogLine | BadLine): void {
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

  /** Takes back the bids that are too young. */
  function close(): void {
    const { from, to } = counts
    const youngest = to! - Math.min(options.attributionWindow, delays.quantile(mostWins))
    if (from === null || youngest <= from + warmUp) return
    for (const entry of awaiting.values()) {
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
      counts.unmatchedWins = early.givenUp + early.size
      return { counts: { ...counts }, ...report([...evaluated.values()], total) }
    },
  }
}
