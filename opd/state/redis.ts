/**
 * State that nodes share in Redis: bid log, model deltas, live nodes. Without Redis everything continues on this node:
 * failures are counted, the loss and the return of the connection are logged, and the hot path never waits.
 */

import { randomUUID } from 'node:crypto'
import { ErrorReply, RESP_TYPES } from '@redis/client'
import type { Log } from '../base/log.ts'
import type { SharedTokens } from '../ports.ts'
import type { ModelBus } from './model-bus.ts'
import { connectRedis, redisPrefix as prefix } from './redis-client.ts'
import { modelBus } from './redis-models.ts'
import { type HeldDecisions, RedisBidLog } from './shared-bid-log.ts'
import { redisTokens } from './tokens.ts'

interface RedisOptions {
  url: string
  location: string
  /** Milliseconds that a bid is kept; 0: bids are not written. Read at each write, because a reload may change it. */
  bidTtl: () => number
  /** The decisions that this node holds, which are written again after a loss. Default: none. */
  held?: HeldDecisions
  log: Log
  /** Milliseconds since the epoch, by the clock of the decisions. Default: that of this machine. */
  now?: () => number
  /** The last known number of live nodes of this location; 1 if it is not given. */
  nodes?: number
  /** Called when the number has changed. */
  onNodes: (nodes: number) => void
}

/** Milliseconds until a command times out, and for which no command is sent after a timeout. */
const commandTimeout = 500
const pauseAfterTimeout = 2000
/** A timeout is so many timer ticks. If this process is blocked, ticks are missing, and the delay is not taken for one of Redis. */
const timeoutTicks = 5
/** Milliseconds between two log lines about commands that failed. */
const logInterval = 60_000
const heartbeatEvery = 1000
const nodeLife = 3500

/** Live nodes, by the clock of Redis, because the clocks of nodes may differ. */
const heartbeat = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], 60000)
return redis.call('ZCARD', KEYS[1])`

/** Bids of one command, for some 2 ms of Redis. In a Cluster each bid is a command: their keys are on different nodes. */
const bidsOfCommand = 200

export class RedisState {
  readonly shared: RedisBidLog
  readonly tokens: SharedTokens
  readonly models: ModelBus
  /** Bids of the shared log, and commands that failed. */
  readonly counts: RedisBidLog['counts'] & { failed: number }
  private readonly options: RedisOptions
  private readonly node = randomUUID()
  private readonly connection: ReturnType<typeof connectRedis>
  private readonly log: Log
  private readonly beater: NodeJS.Timeout
  private isLost = true
  /** After a timeout Redis counts as unavailable for a while, so that commands do not wait for it in a row. */
  private pausedUntil = 0
  /** Whether Redis answered the last command. If a network drops all packets, the connection stays open. */
  private answers = true
  private nextLogAt = 0
  private nodes: number
  private connectedAt = 0

  constructor(options: RedisOptions) {
    const { url, location, bidTtl, held = () => [], now = Date.now, log, nodes = 1 } = options
    this.options = options
    this.log = log
    this.nodes = nodes
    const connection = connectRedis(url)
    const { client } = connection
    this.connection = connection
    const attempt = <T>(work: () => Promise<T>, fallback: T) => this.attempt(work, fallback)
    this.shared = new RedisBidLog({
      node: this.node,
      prefix,
      ttl: bidTtl,
      held,
      bidsOfCommand: connection.isCluster ? 1 : bidsOfCommand,
      isAvailable: () => this.isAvailable,
      evaluate: (script, keys, values) => client.eval(script, { keys, arguments: values }),
      hGetAll: (key) => client.hGetAll(key),
      attempt,
      now,
    })
    this.counts = Object.assign(this.shared.counts, { failed: 0 })
    this.tokens = redisTokens(
      (script, key, values) =>
        attempt<unknown>(() => client.eval(script, { keys: [key], arguments: values }), null),
      `${prefix}qps:${location}`,
    )
    const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    this.models = modelBus(client, prefix, async (key, field) => {
      const value = await bytes.hGet(key, field)
      return value instanceof Uint8Array ? value : null
    })
    connection.onReady(() => this.ready())
    connection.onError((error: Error) => {
      if (!this.isLost) log.warn({ err: error.message }, 'redis is lost, this node continues alone')
      this.isLost = true
    })
    this.beater = setInterval(() => void this.sendHeartbeat(), heartbeatEvery).unref()
  }

  get connected(): boolean {
    return this.connection.client.isReady && this.answers
  }

  async close(): Promise<void> {
    const { connection, node, options } = this
    clearInterval(this.beater)
    await this.shared.close()
    const key = `${prefix}nodes:${options.location}`
    await this.attempt<unknown>(() => connection.client.zRem(key, node), null)
    await connection.close()
  }

  private ready(): void {
    if (this.isLost) this.log.info({}, 'redis is connected')
    this.isLost = false
    this.shared.connected()
    this.connectedAt = performance.now()
    void this.sendHeartbeat()
  }

  private get isAvailable(): boolean {
    return this.connection.client.isReady && performance.now() >= this.pausedUntil
  }

  private async attempt<T>(work: () => Promise<T>, fallback: T): Promise<T> {
    if (!this.isAvailable) {
      this.counts.failed++
      return fallback
    }
    const timeout = Promise.withResolvers<never>()
    let ticks = 0
    const tick = () => {
      if (++ticks < timeoutTicks) return
      clearInterval(timer)
      this.answers = false
      this.pausedUntil = performance.now() + pauseAfterTimeout
      timeout.reject(new Error('Redis timed out'))
    }
    const timer = setInterval(tick, commandTimeout / timeoutTicks)
    try {
      const result = await Promise.race([work(), timeout.promise])
      this.answers = true
      return result
    } catch (error) {
      if (error instanceof ErrorReply) this.answers = true
      this.counts.failed++
      this.logFailure(error as Error)
      return fallback
    } finally {
      clearInterval(timer)
    }
  }

  /** Of an error reply only the code is logged: the rest may quote a bid id. */
  private logFailure(error: Error): void {
    if (performance.now() < this.nextLogAt) return
    this.nextLogAt = performance.now() + logInterval
    const err = error instanceof ErrorReply ? error.message.split(' ', 1)[0] : error.message
    this.log.warn({ err, failures: this.counts.failed }, 'a redis command failed')
  }

  private async sendHeartbeat(): Promise<void> {
    const { connection, node, nodes, options } = this
    const command = {
      keys: [`${prefix}nodes:${options.location}`],
      arguments: [node, String(nodeLife)],
    }
    const alive = await this.attempt(() => connection.client.eval(heartbeat, command), nodes)
    const count = Math.max(1, Number(alive))
    if (count === this.nodes) return
    // After a reconnect the other nodes need time to send their heartbeats.
    if (count < this.nodes && performance.now() - this.connectedAt < nodeLife) return
    this.nodes = count
    options.onNodes(count)
  }
}
