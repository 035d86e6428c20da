/**
 * Model updates of a node with several processes, and of the other nodes: the processes exchange theirs in the memory of the
 * first (local-models.ts), and the first relays between that and Redis. While Redis is away the processes go on.
 */
import { oneAtATime } from '../shared/one-at-a-time.ts'
import type { ModelBus } from './model-sync.ts'

/** Deltas that wait for Redis. Beyond it the oldest is dropped: the other nodes take the shared model instead. */
const maxOutgoing = 600

/** Milliseconds that a round of the first process waits for Redis. */
const patience = 500

interface Relay {
  /** The position in the stream of Redis. */
  place: string
  outgoing: Uint8Array[]
  /** Sends and receives what there is. */
  run: () => Promise<void>
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('Redis timed out')), patience)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

export interface RelayedModels {
  /** For the first process: it shares its model with other nodes. */
  first: ModelBus
  /** For the others. */
  worker: ModelBus
}

export function relayedModels(local: ModelBus, redis: ModelBus): RelayedModels {
  const relays = new Map<string, Relay>()
  function relayOf(mode: string): Relay {
    const known = relays.get(mode)
    if (known !== undefined) return known
    const relay: Relay = {
      place: '0',
      outgoing: [],
      run: oneAtATime(async () => {
        await send(mode, relay)
        await receive(mode, relay)
      }),
    }
    relays.set(mode, relay)
    return relay
  }

  async function publish(mode: string, delta: Uint8Array): Promise<void> {
    const { outgoing } = relayOf(mode)
    outgoing.push(delta)
    if (outgoing.length > maxOutgoing) outgoing.shift()
    await local.publish(mode, delta)
  }

  async function send(mode: string, { outgoing }: Relay): Promise<void> {
    for (let next = outgoing[0]; next !== undefined; next = outgoing[0]) {
      await redis.publish(mode, next)
      if (outgoing[0] === next) outgoing.shift()
    }
  }

  /** What this node sent comes back, too. Each process merges a delta once, by its envelope. */
  async function receive(mode: string, relay: Relay): Promise<void> {
    for (;;) {
      const { deltas, last } = await redis.fetch(mode, relay.place)
      for (const { bytes } of deltas) await local.publish(mode, bytes)
      relay.place = last
      if (deltas.length === 0) return
    }
  }

  return {
    first: {
      publish,
      async fetch(mode, from) {
        // `look` fails as well, and is logged.
        await inTime(relayOf(mode).run()).catch(() => undefined)
        return local.fetch(mode, from)
      },
      look: (...at) => inTime(redis.look(...at)),
      async writeModel(...model) {
        await local.writeModel(...model)
        return inTime(redis.writeModel(...model))
      },
      readModel: (mode) => inTime(redis.readModel(mode)),
    },
    worker: { ...local, publish },
  }
}
