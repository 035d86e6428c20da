/**
 * Model updates of a node with several processes, and of the other nodes: the processes publish theirs in the memory of the
 * first (local-models.ts), and the first relays between that and the store of all nodes (Redis). While that is away, the first
 * leads the processes of this node.
 */

import type { Log } from '../base/log.ts'
import { oneAtATime } from '../base/one-at-a-time.ts'
import type { Mode } from '../shared/arms.ts'
import type { ModelBus, SharedModelHead } from './model-bus.ts'

/** Deltas that wait for the store. Beyond it the oldest is dropped: the other nodes take the shared model instead. */
const maxOutgoing = 3000

/** Milliseconds that a round of the first process waits for the store. */
const storeTimeout = 500

interface Relay {
  /** The position in the stream of all nodes. */
  place: string
  outgoing: Uint8Array[]
  /** Sends the outgoing deltas. */
  send: () => Promise<void>
  /** Receives a batch of deltas. */
  receive: () => Promise<void>
  /** The last batch could not be received. */
  isBehind: boolean
}

/** Rejects after `storeTimeout`. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error('the store of the models timed out')),
    storeTimeout,
  )
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
  /** Whether a delta that `first` has published has not reached the store of all nodes. Absent: `publish` resolves when it has. */
  isWaiting?: (mode: Mode, delta: Uint8Array) => boolean
}

/**
 * Two buses as one: that of the workers of this node, and that of all nodes.
 *
 * @param local the bus of the workers
 * @param shared the bus of all nodes
 * @param log has a line when a bus begins to fail
 */
export function relayedModels(
  local: ModelBus,
  shared: ModelBus,
  log: Pick<Log, 'info'>,
): RelayedModels {
  const relays = new Map<Mode, Relay>()
  /** Heads of the curves that other nodes share, as seen last. */
  const curveHeads = new Map<Mode, SharedModelHead>()
  function relayOf(mode: Mode): Relay {
    const known = relays.get(mode)
    if (known !== undefined) return known
    const relay: Relay = {
      place: '0',
      outgoing: [],
      send: oneAtATime(() => send(mode, relay)),
      receive: oneAtATime(() => receive(mode, relay)),
      isBehind: false,
    }
    relays.set(mode, relay)
    return relay
  }

  async function publish(mode: Mode, delta: Uint8Array): Promise<void> {
    const { outgoing } = relayOf(mode)
    outgoing.push(delta)
    if (outgoing.length > maxOutgoing) outgoing.shift()
    await local.publish(mode, delta)
  }

  async function send(mode: Mode, { outgoing }: Relay): Promise<void> {
    for (let next = outgoing[0]; next !== undefined; next = outgoing[0]) {
      await shared.publish(mode, next)
      if (outgoing[0] === next) outgoing.shift()
    }
  }

  /** Deltas of this node come back as well. Each process merges a delta once, by its envelope. */
  async function receive(mode: Mode, relay: Relay): Promise<void> {
    const { deltas, last } = await shared.fetch(mode, relay.place)
    for (const { bytes } of deltas) await local.publish(mode, bytes)
    relay.place = last
  }

  /** The store did not answer in this round. */
  let isAway = false
  /** Logs the first failure of several. */
  function logFailure(error: Error, isKnown: boolean, what: string): void {
    if (!isKnown) log.info({ err: error.message }, what)
  }

  async function lookAt(...[mode, ...rest]: Parameters<ModelBus['look']>) {
    await inTime(relayOf(mode).send())
    const seen = await inTime(shared.look(mode, ...rest))
    if (seen.curve.head !== null) curveHeads.set(mode, seen.curve.head)
    return seen
  }

  return {
    first: {
      publish,
      async fetch(mode, from) {
        const relay = relayOf(mode)
        if (!isAway)
          relay.isBehind = await inTime(relay.receive()).then(
            () => false,
            (error: Error) => {
              logFailure(error, relay.isBehind, 'model updates of other nodes were not received')
              return true
            },
          )
        return local.fetch(mode, from)
      },
      async look(...args) {
        const seen = await lookAt(...args).catch((error: Error) => {
          logFailure(
            error,
            isAway,
            'the models of other nodes are away: this node leads its processes',
          )
          return null
        })
        isAway = seen === null
        return seen ?? { ...(await local.look(...args)), alone: true }
      },
      async writeModel(...part) {
        const number = await local.writeModel(...part)
        return isAway ? number : inTime(shared.writeModel(...part))
      },
      /** A curve is also written for the workers. They take the whole model of the first process. */
      async readModel(mode, part) {
        const bytes = await inTime(shared.readModel(mode, part))
        const head = curveHeads.get(mode)
        if (bytes !== null && head !== undefined && part === 'curve')
          await local.writeModel(mode, part, '', head, bytes)
        return bytes
      },
    },
    worker: { ...local, publish },
    isWaiting: (mode, delta) => relayOf(mode).outgoing.includes(delta),
  }
}
