/**
 * Synchronizes the models of several nodes: every two seconds a node publishes its own updates (a delta) and merges those
 * of other nodes. A delta that cannot be sent is kept and sent later. Each delta is merged once, by its envelope.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type Mode, modes } from '../pricing/arms.ts'
import type { Log } from '../shared/log.ts'
import { decodeEnvelope, encodeEnvelope } from './envelope.ts'
import type { ModelManager } from './model-manager.ts'

/** Milliseconds. */
const syncInterval = 2000
const closeTimeout = 2000

/** The stream of deltas that all nodes share, implemented by Redis. A failure is retried in the next round. */
export interface ModelBus {
  /** Appends one delta of this node's model. */
  publish(mode: string, delta: Uint8Array): Promise<void>
  /** Deltas after the position `from` (`0`: from the beginning), each with its position. `last`: next `from`. */
  fetch(
    mode: string,
    from: string,
  ): Promise<{ deltas: { place: string; bytes: Uint8Array }[]; last: string }>
}

interface ModelSync {
  /** `old`: of an earlier epoch; `seen`: received before. */
  readonly counts: {
    sent: number
    merged: number
    refused: number
    old: number
    seen: number
    readonly dropped: number
  }
  /** Runs one round immediately. */
  round(): Promise<void>
  close(): Promise<void>
}

export function createModelSync(options: {
  modelManager: ModelManager
  redis: ModelBus
  log: Log
  /** Milliseconds that `close` waits for the last round. */
  timeout?: number
}): ModelSync {
  const { modelManager, redis, log } = options
  const { models } = modelManager
  // From now on the updates of this node are collected.
  models.publishes = true
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
    const outbox = models.takeDelta(mode)
    for (let next = outbox[0]; next !== undefined; next = outbox[0]) {
      await redis.publish(mode, encodeEnvelope(next))
      counts.sent++
      if (outbox[0] === next) outbox.shift()
    }
  }

  /** false: the delta is of a later epoch. */
  function merge(mode: Mode, bytes: Uint8Array): boolean {
    const envelope = decodeEnvelope(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    if (envelope === null) {
      counts.refused++
      log.error({ mode }, 'a model delta was refused: damaged')
      return true
    }
    if (envelope.node === models.node) return true
    try {
      const result = models.merge(mode, envelope)
      if (result === 'ahead') return false
      counts[result]++
    } catch (error) {
      counts.refused++
      log.error({ mode, err: (error as Error).message }, 'a model delta was refused')
    }
    return true
  }

  async function receive(mode: Mode): Promise<void> {
    const model = models.of(mode)
    for (;;) {
      const { deltas, last } = await redis.fetch(mode, model.place)
      for (const { place, bytes } of deltas) {
        // A delta of a later epoch, and all after it, wait until this node has followed the roll-back.
        if (!merge(mode, bytes)) return
        model.place = place
        // Yield to the event loop between two merges.
        await new Promise(setImmediate)
      }
      model.place = last
      if (deltas.length === 0) return
    }
  }

  async function runRound(): Promise<void> {
    try {
      for (const mode of modes) {
        if (modelManager.of(mode).isFrozen) continue
        await send(mode)
        await receive(mode)
      }
    } catch (error) {
      // The Redis client logs a lost connection itself. The next round sends what is left.
      log.info({ err: (error as Error).message }, 'models were not synchronized')
    }
  }

  let running: Promise<void> | null = null
  const round = () => {
    running ??= runRound().finally(() => {
      running = null
    })
    return running
  }
  const timer = setInterval(() => void round(), syncInterval)
  timer.unref()

  return {
    counts,
    round,
    async close() {
      clearInterval(timer)
      // If Redis hangs, the last round is given up: the models are saved to disk afterwards.
      const finished = new AbortController()
      const timeout = sleep(options.timeout ?? closeTimeout, undefined, {
        signal: finished.signal,
      })
      await Promise.race([round(), timeout])
      finished.abort()
      await timeout.catch(() => undefined)
    },
  }
}
