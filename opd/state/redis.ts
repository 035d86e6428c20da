/**
 * State that nodes share in Redis: bid log, model deltas, live nodes. Without Redis everything continues on this node:
 * failures are counted, the loss and the return of the connection are logged, and the hot path never waits.
 */

import { randomUUID } from 'node:crypto'
import { ErrorReply, RESP_TYPES } from '@redis/client'
import type { Log } from '../base/log.ts'
import { connectRedis } from './redis-client.ts'
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

const prefix = 'bidweir:'
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

export type RedisState = ReturnType<typeof openRedis>

export function openRedis(options: RedisOptions) {
  const { url, location, bidTtl, held = () => [], now = Date.now, log, onNodes } = options
  const node = randomUUID()
  /** Commands that failed. */
  let failed = 0
  const connection = connectRedis(url)
  const { client } = connection
  const most = connection.isCluster ? 1 : bidsOfCommand
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
  let lost = true
  connection.onReady(() => {
    if (lost) log.info({}, 'redis is connected')
    lost = false
  })
  connection.onError((error: Error) => {
    if (!lost) log.warn({ err: error.message }, 'redis is lost, this node continues alone')
    lost = true
  })
  /** After a timeout Redis counts as unavailable for a while, so that commands do not wait for it in a row. */
  let pausedUntil = 0
  /** Whether Redis answered the last command. If a network drops all packets, the connection stays open. */
  let answers = true
  const isAvailable = () => client.isReady && performance.now() >= pausedUntil

  let nextLogAt = 0
  /** Of an error reply only the code is logged: the rest may quote a bid id. */
  function logFailure(error: Error): void {
    if (performance.now() < nextLogAt) return
    nextLogAt = performance.now() + logInterval
    const err = error instanceof ErrorReply ? error.message.split(' ', 1)[0] : error.message
    log.warn({ err, failures: failed }, 'a redis command failed')
  }

  async function attempt<T>(work: () => Promise<T>, fallback: T): Promise<T> {
    if (!isAvailable()) {
      failed++
      return fallback
    }
    const timeout = Promise.withResolvers<never>()
    let ticks = 0
    const tick = () => {
      if (++ticks < timeoutTicks) return
      clearInterval(timer)
      answers = false
      pausedUntil = performance.now() + pauseAfterTimeout
      timeout.reject(new Error('Redis timed out'))
    }
    const timer = setInterval(tick, commandTimeout / timeoutTicks)
    try {
      const result = await Promise.race([work(), timeout.promise])
      answers = true
      return result
    } catch (error) {
      if (error instanceof ErrorReply) answers = true
      failed++
      logFailure(error as Error)
      return fallback
    } finally {
      clearInterval(timer)
    }
  }

  const bids = new RedisBidLog({
    node,
    prefix,
    ttl: bidTtl,
    held,
    bidsOfCommand: most,
    isAvailable,
    evaluate: (script, keys, values) => client.eval(script, { keys, arguments: values }),
    hGetAll: (key) => client.hGetAll(key),
    attempt,
    now,
  })
  connection.onReady(() => bids.connected())

  let { nodes = 1 } = options
  let connectedAt = 0
  const sendHeartbeat = async () => {
    const alive = await attempt(
      () =>
        client.eval(heartbeat, {
          keys: [`${prefix}nodes:${location}`],
          arguments: [node, String(nodeLife)],
        }),
      nodes,
    )
    const count = Math.max(1, Number(alive))
    if (count === nodes) return
    // After a reconnect the other nodes need time to send their heartbeats.
    if (count < nodes && performance.now() - connectedAt < nodeLife) return
    nodes = count
    onNodes(nodes)
  }
  const beater = setInterval(() => void sendHeartbeat(), heartbeatEvery).unref()
  connection.onReady(() => {
    connectedAt = performance.now()
    void sendHeartbeat()
  })

  return {
    counts: {
      get failed() {
        return failed
      },
      get written() {
        return bids.counts.written
      },
      get again() {
        return bids.counts.again
      },
      get dropped() {
        return bids.counts.dropped
      },
    },
    get connected() {
      return client.isReady && answers
    },
    shared: bids,
    tokens: redisTokens(
      (script, key, values) =>
        attempt<unknown>(() => client.eval(script, { keys: [key], arguments: values }), null),
      `${prefix}qps:${location}`,
    ),
    ...modelBus(client, prefix, async (key, field) => {
      const value = await bytes.hGet(key, field)
      return value instanceof Uint8Array ? value : null
    }),
    async close() {
      clearInterval(beater)
      await bids.close()
      await attempt<unknown>(() => client.zRem(`${prefix}nodes:${location}`, node), null)
      await connection.close()
    },
  }
}
