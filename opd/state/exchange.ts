/**
 * Models of several nodes: each appends what it learned and merges what others did, every two seconds. A delta
 * that cannot be sent is not lost: it is kept and sent again. Each is merged once, by its place in the log.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Keeper, KeeperLog } from './keeper.ts'
import { type Mode, modes } from './keeper.ts'
import type { RedisState } from './redis.ts'

const every = 2000
/** Deltas that wait for Redis; beyond, the oldest is dropped (counted): its exposures were taught here. */
const maxUnsent = 100

interface Side {
  last: string
  unsent: Uint8Array[]
}

export interface Exchange {
  readonly counts: { sent: number; merged: number; refused: number; dropped: number }
  /** One round now; for tests and for the end. */
  round(): Promise<void>
  close(): Promise<void>
}

export function createExchange(options: {
  keeper: Keeper
  redis: Pick<RedisState, 'publish' | 'fetch'>
  dir: string | null
  log: KeeperLog
}): Exchange {
  const { keeper, redis, dir, log } = options
  const counts = { sent: 0, merged: 0, refused: 0, dropped: 0 }
  const file = dir === null ? null : join(dir, 'exchange.json')
  const places = read(file)
  const sides = new Map<Mode, Side>(
    modes.map((mode) => [mode, { last: places[mode] ?? '0', unsent: [] }]),
  )

  async function send(mode: Mode, side: Side): Promise<void> {
    const delta = keeper.of(mode).delta()
    if (delta.length > emptyDelta) side.unsent.push(delta)
    if (side.unsent.length > maxUnsent) {
      side.unsent.shift()
      counts.dropped++
    }
    while (side.unsent.length > 0) {
      await redis.publish(mode, side.unsent[0]!)
      side.unsent.shift()
      counts.sent++
    }
  }

  async function receive(mode: Mode, side: Side): Promise<void> {
    const { deltas, last } = await redis.fetch(mode, side.last)
    side.last = last
    for (const delta of deltas) {
      try {
        keeper.of(mode).merge(delta)
        counts.merged++
      } catch (error) {
        counts.refused++
        log.error({ mode, err: (error as Error).message }, 'a model delta was refused')
      }
    }
  }

  let running: Promise<void> | null = null
  const round = () => {
    running ??= (async () => {
      for (const [mode, side] of sides) {
        try {
          await send(mode, side)
          await receive(mode, side)
        } catch (error) {
          // Redis is away: the client says so; the next round sends what waits.
          log.info({ mode, err: (error as Error).message }, 'models were not exchanged')
        }
      }
    })().finally(() => {
      running = null
    })
    return running
  }
  const timer = setInterval(() => void round(), every)
  timer.unref()

  return {
    counts,
    round,
    async close() {
      clearInterval(timer)
      await round()
      if (file !== null)
        writeFileSync(
          file,
          JSON.stringify(Object.fromEntries([...sides].map(([mode, { last }]) => [mode, last]))),
        )
    },
  }
}

/** A delta without a row: head and checksum. */
const emptyDelta = 16

function read(file: string | null): Partial<Record<Mode, string>> {
  if (file === null) return {}
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Partial<Record<Mode, string>>
  } catch {
    // The first start, or a file cut by a crash: all that is kept is merged again from a fresh place.
    return {}
  }
}
