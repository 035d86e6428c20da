/**
 * What nodes share through Redis: bid log, model deltas, who is alive. Every part goes on when
 * Redis is lost: failures are counted, one line is logged at each turn, and nothing on the hot path waits.
 */
import { randomUUID } from 'node:crypto'
import { createClient, ErrorReply } from 'redis'
import type { DecisionRecord } from '../engine/types.ts'
import type { SharedBidLog } from '../ports.ts'
import { maxRecordBytes, readRecord, writeRecord } from '../pricing/record.ts'
import type { ModelBus } from './model-sync.ts'
import { modelBus } from './redis-models.ts'

export interface RedisLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export interface RedisOptions {
  url: string
  location: string
  /** Milliseconds, read at each write: a reload may change it. */
  contextTtl: () => number
  log: RedisLog
  /** The number of live nodes of this location has changed. */
  onNodes: (nodes: number) => void
}

export interface RedisState extends ModelBus {
  shared: SharedBidLog
  readonly counts: { dropped: number; failed: number; written: number }
  readonly connected: boolean
  close(): Promise<void>
}

const prefix = 'bidweir:'
/** Bids waiting to be written; beyond, they stay in this node's memory alone (counted). */
const maxBuffered = 20_000
const flushEvery = 20
/** Milliseconds that an answer is waited for, and that none is asked for after one that did not come. */
const patience = 500
const deafness = 2000
/** Milliseconds between two lines about commands that failed. */
const quietFor = 60_000
const heartbeatEvery = 1000
const nodeLife = 3500

/** Live nodes by the clock of Redis: clocks of nodes may differ. */
const heartbeat = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], 60000)
return redis.call('ZCARD', KEYS[1])`

/** `id record`, the record in base64: one value of a bid id's hash. */
function encode(record: DecisionRecord): string {
  const bytes = Buffer.allocUnsafe(maxRecordBytes + record.features.length)
  const end = writeRecord(bytes, 0, record, false)
  bytes.set(record.features, end)
  return `${record.id} ${bytes.toString('base64', 0, end + record.features.length)}`
}

function decode(text: string, bidId: string): DecisionRecord | null {
  const space = text.indexOf(' ')
  const bytes = Buffer.from(text.slice(space + 1), 'base64')
  return space < 1 ? null : readRecord(bytes, 0, bytes.length, text.slice(0, space), bidId)
}

export function openRedis(options: RedisOptions): RedisState {
  const { url, location, contextTtl, log, onNodes } = options
  const node = randomUUID()
  const counts = { dropped: 0, failed: 0, written: 0 }
  const client = createClient({
    url,
    disableOfflineQueue: true,
    commandsQueueMaxLength: 100_000,
    socket: {
      connectTimeout: 2000,
      reconnectStrategy: (tries: number) => Math.min(2000, 100 * tries),
    },
  })
  let lost = true
  client.on('ready', () => {
    if (lost) log.info({}, 'redis is there')
    lost = false
  })
  client.on('error', (error: Error) => {
    if (!lost) log.warn({ err: error.message }, 'redis is lost, this node goes on alone')
    lost = true
  })
  // Its failure arrives as 'error' too, and it is tried again.
  void client.connect().catch(() => undefined)

  /** A Redis that hangs, or whose network swallows, is gone for a while: nobody waits for it twice. */
  let deafUntil = 0
  const there = () => client.isReady && performance.now() >= deafUntil

  let quietUntil = 0
  /** Of a reply of Redis only the code: the rest may quote a bid id. */
  function tell(error: Error): void {
    if (performance.now() < quietUntil) return
    quietUntil = performance.now() + quietFor
    const err = error instanceof ErrorReply ? error.message.split(' ', 1)[0] : error.message
    log.warn({ err, failures: counts.failed }, 'redis did not take a command')
  }

  async function attempt<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
    if (!there()) {
      counts.failed++
      return otherwise
    }
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        deafUntil = performance.now() + deafness
        reject(new Error('Redis does not answer'))
      }, patience)
    })
    try {
      return await Promise.race([work(), late])
    } catch (error) {
      counts.failed++
      tell(error as Error)
      return otherwise
    } finally {
      clearTimeout(timer)
    }
  }

  let buffer: DecisionRecord[] = []
  const bidKey = (bidId: string) => `${prefix}bid:${bidId}`
  const flush = async () => {
    if (buffer.length === 0 || !there()) return
    const batch = buffer
    buffer = []
    const ttl = Math.ceil(contextTtl())
    const written = await attempt(async () => {
      await Promise.all(
        batch.flatMap((record) => {
          const key = bidKey(record.bidId)
          return [client.hSet(key, record.supplier, encode(record)), client.pExpire(key, ttl)]
        }),
      )
      return true
    }, false)
    counts[written ? 'written' : 'dropped'] += batch.length
  }
  const flusher = setInterval(() => void flush(), flushEvery)
  flusher.unref()

  let nodes = 1
  let connectedAt = 0
  const beat = async () => {
    const alive = await attempt(
      () =>
        client.eval(heartbeat, {
          keys: [`${prefix}nodes:${location}`],
          arguments: [node, String(nodeLife)],
        }),
      nodes,
    )
    const now = Math.max(1, Number(alive))
    if (now === nodes) return
    // A Redis that has just come back has heard of few: they are missed only when they had time to say so.
    if (now < nodes && performance.now() - connectedAt < nodeLife) return
    nodes = now
    onNodes(nodes)
  }
  const beater = setInterval(() => void beat(), heartbeatEvery)
  beater.unref()
  client.on('ready', () => {
    connectedAt = performance.now()
    void beat()
  })

  return {
    counts,
    get connected() {
      return client.isReady
    },
    shared: {
      put(record) {
        if (buffer.length >= maxBuffered) counts.dropped++
        else buffer.push(record)
      },
      async find(bidId) {
        const found = await attempt(
          () => client.hGetAll(bidKey(bidId)),
          {} as Record<string, string>,
        )
        return Object.values(found).flatMap((text) => {
          const record = decode(text, bidId)
          return record === null ? [] : [record]
        })
      },
    },
    ...modelBus(client, prefix),
    async close() {
      clearInterval(flusher)
      clearInterval(beater)
      await flush()
      await attempt<unknown>(() => client.zRem(`${prefix}nodes:${location}`, node), null)
      if (client.isReady) await client.close()
      else client.destroy()
    },
  }
}
