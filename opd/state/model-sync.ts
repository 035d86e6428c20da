/**
 * ModelStore of several nodes: each appends what it learned and merges what others did, every two seconds. A delta that
 * cannot be sent is not lost: it is kept and sent again. Each counts once, by its envelope.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Mode, modes } from '../pricing/arms.ts'
import { decodeEnvelope, encodeEnvelope } from './envelope.ts'
import type { ManagerLog, ModelManager } from './model-manager.ts'

const every = 2000
const patience = 2000

/** What nodes share; Redis implements it. Everything may fail, and is tried again in the next round. */
export interface ModelBus {
  /** Appends one delta of this node's model. */
  publish(mode: string, delta: Uint8Array): Promise<void>
  /** Deltas after `from` (`0` all that is kept) with where each stands; `last`: where to go on. */
  fetch(
    mode: string,
    from: string,
  ): Promise<{ deltas: { place: string; bytes: Uint8Array }[]; last: string }>
}

export interface ModelSync {
  /** `old`: of an epoch that is over; `seen`: came again. */
  readonly counts: {
    sent: number
    merged: number
    refused: number
    old: number
    seen: number
    readonly dropped: number
  }
  /** One round now; for tests and for the end. */
  round(): Promise<void>
  close(): Promise<void>
}

export function createModelSync(options: {
  modelManager: ModelManager
  redis: ModelBus
  log: ManagerLog
  /** Milliseconds that the end waits for its last round. */
  patience?: number
}): ModelSync {
  const { modelManager, redis, log } = options
  const { models } = modelManager
  // From now on what is learned waits to be sent.
  models.shares = true
  const counts = {
    sent: 0,
    merged: 0,
    refused: 0,
    old: 0,
    seen: 0,
    get dropped() {
      return models.counts.dropped
    },
  }

  async function send(mode: Mode): Promise<void> {
    const outbox = models.draw(mode)
    for (let next = outbox[0]; next !== undefined; next = outbox[0]) {
      await redis.publish(mode, encodeEnvelope(next))
      counts.sent++
      if (outbox[0] === next) outbox.shift()
    }
  }

  function take(mode: Mode, bytes: Uint8Array): boolean {
    const envelope = decodeEnvelope(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    if (envelope === null) {
      counts.refused++
      log.error({ mode }, 'a model delta was refused: damaged')
      return true
    }
    if (envelope.node === models.node) return true
    try {
      const taken = models.accept(mode, envelope)
      if (taken === 'ahead') return false
      counts[taken]++
    } catch (error) {
      counts.refused++
      log.error({ mode, err: (error as Error).message }, 'a model delta was refused')
    }
    return true
  }

  async function receive(mode: Mode): Promise<void> {
    const kept = models.of(mode)
    for (;;) {
      const { deltas, last } = await redis.fetch(mode, kept.place)
      for (const { place, bytes } of deltas) {
        // Of an epoch that this node does not follow yet: it waits for the next round, and so do later ones.
        if (!take(mode, bytes)) return
        kept.place = place
        // Other work has its turn between two merges.
        await new Promise(setImmediate)
      }
      kept.place = last
      if (deltas.length === 0) return
    }
  }

  async function once(): Promise<void> {
    try {
      for (const mode of modes) {
        if (modelManager.of(mode).isFrozen) continue
        await send(mode)
        await receive(mode)
      }
    } catch (error) {
      // Redis is away: the client says so; the next round sends what waits.
      log.info({ err: (error as Error).message }, 'models were not exchanged')
    }
  }

  let running: Promise<void> | null = null
  const round = () => {
    running ??= once().finally(() => {
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
      // Of a bus that hangs nothing more is expected: models are saved after this.
      const over = new AbortController()
      const late = sleep(options.patience ?? patience, undefined, { signal: over.signal })
      await Promise.race([round(), late])
      over.abort()
      await late.catch(() => undefined)
    },
  }
}
