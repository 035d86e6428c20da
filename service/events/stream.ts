/**
 * The event stream: two bounded queues, and one batch at a time to the log. Nothing waits for it. Decisions that do not
 * fit are dropped and counted. Wins and losses that do not fit, or that a crash cut off, are read from the store again
 * (catch-up.ts), so each is sent at least once.
 *
 *   bids    ──▶ decisions ──┐
 *   notices ──▶ outcomes  ──┴─▶ 500 at a time ──▶ log
 */

import { atMost } from '../../opd/base/at-most.ts'
import type { Log } from '../../opd/base/log.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { decisionEventOf, type StreamEvent } from './event.ts'

interface Message {
  key: string
  value: string
}

export interface EventLog {
  /** Resolves when the log has stored all messages. */
  send(messages: Message[]): Promise<void>
  close(): Promise<void>
}

/** Events that wait. A decision takes about 600 bytes. */
const maxDecisions = 20_000
const maxOutcomes = 20_000
/** Events of one request. They take about 2 ms to serialize. */
const batchEvents = 500
const flushEvery = 100
/** Milliseconds without attempts after a failure. */
const pauseAfterFailure = 1000
const closeTimeout = 3000

type EventType = StreamEvent['type']

interface Outcome {
  event: StreamEvent
  queuedAt: number
}

export const messageOf = (event: StreamEvent): Message => ({
  key: event.decision,
  value: JSON.stringify(event),
})

export class EventStream {
  readonly sent: Record<EventType, number> = { decision: 0, win: 0, loss: 0 }
  readonly counts = { dropped: 0, deferred: 0, failed: 0 }
  /** Outcomes were left out since the last catch-up. */
  isBehind = false
  private decisions: DecisionRecord[] = []
  private outcomes: Outcome[] = []
  private readonly target: EventLog
  private readonly log: Log
  private readonly now: () => number
  private running: Promise<void> | null = null
  private pausedUntil = 0
  private lost = false
  private closed = false
  private readonly timer: NodeJS.Timeout

  constructor(target: EventLog, { log, now }: { log: Log; now: () => number }) {
    this.target = target
    this.log = log
    this.now = now
    this.timer = setInterval(() => void this.flush(), flushEvery).unref()
  }

  get waiting(): number {
    return this.decisions.length + this.outcomes.length
  }

  /** The time since which an outcome waits; null: none waits. */
  get waitingSince(): number | null {
    return this.outcomes[0]?.queuedAt ?? null
  }

  /** Called on the hot path. The record is serialized later. */
  decided(record: DecisionRecord): void {
    if (record.arm === 'test') return
    if (this.decisions.length >= maxDecisions) this.counts.dropped++
    else this.decisions.push(record)
  }

  outcome(event: StreamEvent): void {
    if (this.outcomes.length < maxOutcomes) {
      this.outcomes.push({ event, queuedAt: this.now() })
      return
    }
    this.counts.deferred++
    this.isBehind = true
  }

  /** Sends events that are not in a queue. Rejects if the log is away. */
  async sendNow(events: readonly StreamEvent[]): Promise<void> {
    if (events.length === 0) return
    await this.target.send(events.map(messageOf))
    for (const { type } of events) this.sent[type]++
  }

  /** Resolves when the queues are empty, or after a failure. */
  flush(): Promise<void> {
    if (this.closed || performance.now() < this.pausedUntil) return Promise.resolve()
    this.running ??= this.drain().finally(() => {
      this.running = null
    })
    return this.running
  }

  private async drain(): Promise<void> {
    try {
      while (this.waiting > 0) {
        await this.sendBatch()
        // Yields to the event loop between two batches.
        await new Promise(setImmediate)
      }
      if (this.lost) this.log.info({}, 'the event log is back')
      this.lost = false
    } catch (error) {
      this.counts.failed++
      this.pausedUntil = performance.now() + pauseAfterFailure
      if (!this.lost)
        this.log.warn(
          { err: (error as Error).message },
          'the event log is lost: wins and losses are sent later, decisions beyond the queue are dropped',
        )
      this.lost = true
    }
  }

  /** An event leaves its queue when the log has it. */
  private async sendBatch(): Promise<void> {
    const outcomes = this.outcomes.slice(0, batchEvents)
    if (outcomes.length > 0) {
      await this.sendNow(outcomes.map(({ event }) => event))
      this.outcomes = this.outcomes.slice(outcomes.length)
      return
    }
    const decisions = this.decisions.slice(0, batchEvents)
    await this.sendNow(decisions.map(decisionEventOf))
    this.decisions = this.decisions.slice(decisions.length)
  }

  /** Sends what is queued within a time limit, even shortly after a failure. What is left is counted and logged. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    await atMost(closeTimeout, this.lastFlush())
    this.closed = true
    if (this.waiting > 0) this.leave()
    await this.target.close().catch((error: Error) => {
      this.log.warn({ err: error.message }, 'the event log was not closed')
    })
  }

  private async lastFlush(): Promise<void> {
    await this.running
    this.pausedUntil = 0
    await this.flush()
  }

  private leave(): void {
    const [decisions, outcomes] = [this.decisions.length, this.outcomes.length]
    this.counts.dropped += decisions
    this.log.warn(
      { decisions, outcomes },
      'events were not sent before the end: the decisions are dropped, wins and losses are sent after the next start',
    )
  }
}
