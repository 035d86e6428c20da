/**
 * The event stream: decisions wait in a bounded queue, and are dropped and counted beyond it. Wins, losses and voids wait in
 * the journal of outcomes (admin/store/outcomes.ts), which calls `sendNow` until the log has them. Nothing waits for either.
 *
 *   bids    ──▶ decisions ──┬─▶ 500 at a time ──▶ log
 *   journal ──▶ outcomes  ──┘
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

/** Decisions that wait, of about 600 bytes each. */
const maxDecisions = 20_000
/** Events of one request. They take about 2 ms to serialize. */
const batchEvents = 500
const flushEvery = 100
/** Milliseconds without attempts after a failure. */
const pauseAfterFailure = 1000
const closeTimeout = 3000

type EventType = StreamEvent['type']

export const messageOf = (event: StreamEvent): Message => ({
  key: event.decision,
  value: JSON.stringify(event),
})

export class EventStream {
  readonly sent: Record<EventType, number> = { decision: 0, win: 0, loss: 0 }
  readonly counts = { dropped: 0, failed: 0 }
  private decisions: DecisionRecord[] = []
  private readonly target: EventLog
  private readonly log: Log
  private running: Promise<void> | null = null
  private pausedUntil = 0
  private lost = false
  private closed = false
  private readonly timer: NodeJS.Timeout

  constructor(target: EventLog, log: Log) {
    this.target = target
    this.log = log
    this.timer = setInterval(() => void this.flush(), flushEvery).unref()
  }

  get waiting(): number {
    return this.decisions.length
  }

  /** Called on the hot path. The record is serialized later. */
  decided(record: DecisionRecord): void {
    if (record.arm === 'test') return
    if (this.decisions.length >= maxDecisions) this.counts.dropped++
    else this.decisions.push(record)
  }

  /** Sends events that are not in the queue. Rejects if the log is away, at once shortly after a failure. */
  async sendNow(events: readonly StreamEvent[]): Promise<void> {
    if (events.length === 0) return
    if (performance.now() < this.pausedUntil) throw new Error('the event log is away')
    try {
      await this.target.send(events.map(messageOf))
    } catch (error) {
      this.counts.failed++
      this.pausedUntil = performance.now() + pauseAfterFailure
      if (!this.lost)
        this.log.warn(
          { err: (error as Error).message },
          'the event log is lost: wins and losses are sent later, decisions beyond the queue are dropped',
        )
      this.lost = true
      throw error
    }
    for (const { type } of events) this.sent[type]++
    if (this.lost) this.log.info({}, 'the event log is back')
    this.lost = false
  }

  /** Resolves when the queue is empty, or after a failure. */
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
    } catch {
      // `sendNow` has counted and logged it; the decisions wait
    }
  }

  /** An event leaves its queue when the log has it. */
  private async sendBatch(): Promise<void> {
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
    this.counts.dropped += this.waiting
    this.log.warn({ decisions: this.waiting }, 'decisions were not sent before the end')
  }
}
