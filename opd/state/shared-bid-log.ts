/**
 * The bid log of all nodes in Redis: one hash for each bid id, with the latest decision of each supplier.
 *
 * The log answers only while it is complete. A node that could not write some of its decisions, or that sees that Redis
 * has lost its keys, is behind: it writes what it holds again, newest first. The roll call, a hash that each node updates
 * every second, has the nodes that are behind and the generation of the keys, which is lost with them.
 *
 *   put ──▶ buffer ──20 ms──▶ HSET           lost link, full buffer, new generation ──▶ behind ──▶ held decisions ──▶ HSETNX
 */
import { ErrorReply } from '@redis/client'
import type { SharedBidLog } from '../ports.ts'
import { maxRecordBytes, readRecord, writeRecord } from '../pricing/record.ts'
import type { DecisionRecord } from '../types.ts'
import { keyOf } from './bid-log.ts'

/** Decisions that a node holds, in batches, newest first. */
export type HeldDecisions = (since: number, size: number) => Iterable<readonly DecisionRecord[]>

interface SharedBidLogParts {
  node: string
  prefix: string
  /** Milliseconds that a bid is kept; 0: bids are not written. */
  ttl: () => number
  /** The decisions that this node can write again. */
  held: HeldDecisions
  /** Bids of one command. */
  bidsOfCommand: number
  isAvailable: () => boolean
  evaluate(script: string, keys: string[], values: string[]): Promise<unknown>
  hGetAll(key: string): Promise<Record<string, string>>
  /** Runs commands within the time limit; returns the fallback and counts a failure if they fail. */
  attempt<T>(work: () => Promise<T>, fallback: T): Promise<T>
  now: () => number
}

/** Bids that wait to be written. */
const maxBuffered = 20_000
/** Milliseconds. */
const flushEvery = 20
/** Milliseconds from the response of a bid until Redis has it: a flush, that of a worker process before it, and the way. */
const writtenWithin = 5 * flushEvery
const rollCallEvery = 1000
/** Milliseconds after which a node that has not answered the roll call counts as dead. */
const nodeLife = 3500
/** Decisions written again at a time, and the milliseconds between: at most 30,000 a second, a third of a core. */
const [againAtOnce, againPause] = [300, 10]

/**
 * Writes bids and their lifetime. One command for all of them takes a third of the CPU time of one for each: 3.4 instead of
 * 10 us a bid. A bid that is refused does not prevent the others; their number is returned with the first error.
 */
const putBids = (write: 'HSET' | 'HSETNX') => `
local refused, first = 0, nil
for i = 1, #KEYS do
  local done = redis.pcall('${write}', KEYS[i], ARGV[2 * i], ARGV[2 * i + 1])
  if type(done) == 'table' then
    refused, first = refused + 1, first or done.err
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
  end
end
return { refused, first }`
const putNew = putBids('HSET')
/** A decision that was made meanwhile is later than one that is written again. */
const putAgain = putBids('HSETNX')

/**
 * Values: a new generation, the node, whether it is behind, the life of a node, the generation that the node knows ('':
 * none). A node that knows another generation is behind. Times are by the clock of Redis.
 */
const rollCall = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local generation = redis.call('HGET', KEYS[1], 'generation')
if not generation then
  generation = ARGV[1]
  redis.call('HSET', KEYS[1], 'generation', generation)
end
local own = ARGV[3]
if ARGV[5] ~= '' and ARGV[5] ~= generation then own = '1' end
redis.call('HSET', KEYS[1], 'node ' .. ARGV[2], now .. ' ' .. own)
local present, behind = 0, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local at, state = string.match(all[i + 1], '^(%d+) (%d)$')
  if at and tonumber(at) < now - tonumber(ARGV[4]) then
    redis.call('HDEL', KEYS[1], all[i])
  elseif at then
    present = present + 1
    behind = behind + tonumber(state)
  end
end
return { generation, present, behind }`

/** One value in the Redis hash of a bid id: `id record`, the record in base64. */
function encode(record: DecisionRecord): string {
  const bytes = Buffer.allocUnsafe(maxRecordBytes + record.features.length)
  const end = writeRecord(bytes, 0, record, {
    ...{ explained: false, facets: true, seat: true },
  })
  bytes.set(record.features, end)
  return `${record.id} ${bytes.toString('base64', 0, end + record.features.length)}`
}

function decode(text: string, bidId: string): DecisionRecord | null {
  const space = text.indexOf(' ')
  const bytes = Buffer.from(text.slice(space + 1), 'base64')
  return space < 1 ? null : readRecord(bytes, 0, bytes.length, text.slice(0, space), bidId)
}

export class RedisBidLog implements SharedBidLog {
  /** Bids written, written again, and not written at their time. */
  readonly counts = { written: 0, again: 0, dropped: 0 }
  private readonly parts: SharedBidLogParts
  private buffer: DecisionRecord[] = []
  /** Decisions since this time may be missing in Redis; null: none. */
  private missingSince: number | null = null
  private writingAgain = false
  /** The generation of the keys in Redis; null: not known yet. */
  private generation: string | null = null
  /** Whether all nodes have written what they hold, by the last roll call of this connection. */
  private complete = false
  /** Nodes at the last roll call at which the log was complete. */
  private expected = 0
  /** Milliseconds of a monotonic clock: the first roll call of this connection; null: there was none. */
  private answeredAt: number | null = null
  /** Connections so far. */
  private connections = 0
  private readonly timers: NodeJS.Timeout[]

  constructor(parts: SharedBidLogParts) {
    this.parts = parts
    this.timers = [
      setInterval(() => void this.flush(), flushEvery).unref(),
      setInterval(() => void this.callRoll(), rollCallEvery).unref(),
    ]
  }

  get isComplete(): boolean {
    return this.complete && this.parts.isAvailable()
  }

  put(record: DecisionRecord): void {
    if (this.parts.ttl() === 0) return
    if (this.buffer.length < maxBuffered) this.buffer.push(record)
    else this.missed([record])
  }

  async find(bidId: string): Promise<DecisionRecord[] | null> {
    const { parts } = this
    // Nothing is shared, so no other node can know more.
    if (parts.ttl() === 0) return []
    const connection = this.connections
    const found = await parts.attempt<Record<string, string> | null>(
      () => parts.hGetAll(this.keyOf(bidId)),
      null,
    )
    if (found === null || !this.complete || connection !== this.connections) return null
    return Object.values(found).flatMap((text) => decode(text, bidId) ?? [])
  }

  async written(): Promise<void> {
    if (this.parts.ttl() > 0) await new Promise((resolve) => setTimeout(resolve, writtenWithin))
  }

  /** The connection is new: what Redis has is not known until the roll call. */
  connected(): void {
    this.connections++
    this.complete = false
    this.answeredAt = null
    void this.callRoll()
  }

  async close(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer)
    await this.flush()
    const leave = `return redis.call('HDEL', KEYS[1], ARGV[1])`
    const { parts } = this
    await parts.attempt<unknown>(
      () => parts.evaluate(leave, [this.rollKey], [`node ${parts.node}`]),
      null,
    )
  }

  private get rollKey(): string {
    return `${this.parts.prefix}bids`
  }

  private keyOf(bidId: string): string {
    return `${this.parts.prefix}bid:${keyOf(bidId)}`
  }

  private missed(bids: readonly DecisionRecord[]): void {
    this.counts.dropped += bids.length
    const since = bids.reduce(
      (least, { decidedAt }) => Math.min(least, decidedAt),
      this.parts.now(),
    )
    this.missingSince = Math.min(this.missingSince ?? since, since)
    this.complete = false
  }

  private async flush(): Promise<void> {
    if (this.buffer.length === 0 || !this.parts.isAvailable()) return
    const batch = this.buffer
    this.buffer = []
    // Each bid is counted when it is answered, which may be after the timeout.
    await this.write(batch, putNew, (written) => {
      this.counts.written += written
    })
  }

  /** False if Redis did not answer for some of the bids. */
  private async write(
    bids: readonly DecisionRecord[],
    script: string,
    count: (written: number) => void,
  ): Promise<boolean> {
    const { parts } = this
    const ttl = String(Math.ceil(parts.ttl()))
    const commands = Array.from({ length: Math.ceil(bids.length / parts.bidsOfCommand) }, (_, n) =>
      bids.slice(n * parts.bidsOfCommand, (n + 1) * parts.bidsOfCommand),
    )
    const send = async (some: readonly DecisionRecord[]) => {
      let answer: [refused: number, error?: string]
      try {
        answer = (await parts.evaluate(
          script,
          some.map(({ bidId }) => this.keyOf(bidId)),
          [ttl, ...some.flatMap((bid) => [bid.supplier, encode(bid)])],
        )) as typeof answer
      } catch (error) {
        if (error instanceof ErrorReply) this.counts.dropped += some.length
        else this.missed(some)
        throw error
      }
      const [refused, error] = answer
      count(some.length - refused)
      this.counts.dropped += refused
      if (error !== undefined) throw new ErrorReply(error)
    }
    return parts.attempt(async () => {
      await Promise.all(commands.map(send))
      return true
    }, false)
  }

  private async callRoll(): Promise<void> {
    const { parts } = this
    if (!parts.isAvailable()) return
    const connection = this.connections
    const behind = this.missingSince !== null || this.writingAgain
    const answer = await parts.attempt(
      () =>
        parts.evaluate(
          rollCall,
          [this.rollKey],
          [
            `${parts.node} ${parts.now()}`,
            parts.node,
            behind ? '1' : '0',
            String(nodeLife),
            this.generation ?? '',
          ],
        ),
      null,
    )
    if (connection !== this.connections) return
    if (answer === null) {
      this.complete = false
      return
    }
    const [generation, present, othersBehind] = answer as [string, number, number]
    this.answeredAt ??= performance.now()
    if (this.generation !== null && this.generation !== generation) {
      this.missingSince = parts.now() - parts.ttl()
      this.answeredAt = performance.now()
    }
    this.generation = generation
    // After a loss of the connection the other nodes need time to answer the roll call.
    const allPresent = present >= this.expected || performance.now() - this.answeredAt >= nodeLife
    this.complete = this.missingSince === null && othersBehind === 0 && allPresent
    if (this.complete) this.expected = present
    if (this.missingSince !== null) void this.writeAgain()
  }

  /** Writes the decisions that may be missing, then answers the roll call. */
  private async writeAgain(): Promise<void> {
    if (this.writingAgain) return
    this.writingAgain = true
    try {
      while (this.missingSince !== null && this.parts.isAvailable()) {
        const since = this.missingSince
        this.missingSince = null
        if (!(await this.writeHeld(since))) {
          this.missingSince = Math.min(this.missingSince ?? since, since)
          return
        }
      }
    } finally {
      this.writingAgain = false
    }
    await this.callRoll()
  }

  /** False if Redis was lost meanwhile. */
  private async writeHeld(since: number): Promise<boolean> {
    const { held, ttl, now } = this.parts
    if (ttl() === 0) return true
    for (const bids of held(Math.max(since, now() - ttl()), againAtOnce)) {
      const { connections } = this
      const done = await this.write(bids, putAgain, (written) => {
        this.counts.again += written
      })
      if (!done && (!this.parts.isAvailable() || connections !== this.connections)) return false
      await new Promise((resolve) => setTimeout(resolve, againPause))
    }
    return true
  }
}
