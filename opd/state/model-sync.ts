/**
 * Synchronizes the models of several nodes: every two seconds a node publishes its own updates (a delta). The one that
 * leads merges the deltas of all, once each by their envelopes, and shares its model; the others follow its curve. So what
 * all nodes read together grows with their number. A delta that cannot be sent is kept and sent later.
 */
import { type Mode, modes } from '../pricing/arms.ts'
import { atMost } from '../shared/at-most.ts'
import type { Log } from '../shared/log.ts'
import { shareRun } from '../shared/one-at-a-time.ts'
import { decodeEnvelope, encodeEnvelope } from './envelope.ts'
import { modelLeases } from './model-leases.ts'
import type { ModelManager } from './model-manager.ts'
import { SharedCurve } from './shared-curve.ts'
import { keepEvery, SharedModel, type SharedModelBus } from './shared-model.ts'

/** Milliseconds. */
const syncInterval = 2000
const joinInterval = 250
const joinTimeout = 10_000
const closeTimeout = 2000

/** all: prices, and leads if no other node does; train: the same, without traffic of its own; serve: prices, never leads. */
export type NodeRole = 'all' | 'serve' | 'train'

/**
 * The stream of deltas of all nodes, which the one that leads reads; implemented by Redis and PostgreSQL. A failure is
 * retried in the next round.
 */
export interface ModelBus extends SharedModelBus {
  /** Appends one delta of this node's model. */
  publish(mode: string, delta: Uint8Array): Promise<void>
  /** Deltas after the position `from` (`0`: from the beginning), each with its position. `last`: next `from`. */
  fetch(
    mode: string,
    from: string,
  ): Promise<{ deltas: { place: string; bytes: Uint8Array }[]; last: string }>
}

export interface ModelSync {
  /** `old`: of an earlier epoch; `seen`: received before. */
  readonly counts: Readonly<{
    sent: number
    merged: number
    refused: number
    old: number
    seen: number
    dropped: number
    /** Shared models that this node wrote and took, and deltas that no node had. */
    shared: number
    taken: number
    /** Curves that this node wrote, and adopted. */
    curvesShared: number
    curvesAdopted: number
    lost: number
  }>
  /** This node has had the model of the others, or has waited for it long enough. */
  readonly joined: boolean
  /** Runs one round immediately. */
  round(): Promise<void>
  /**
   * Between rounds: renews the lease of the node that leads. Of one that ended, another node takes it. Runs a round if it
   * did, and where there is another curve, or a refit to share.
   */
  keep(): Promise<void>
  close(): Promise<void>
}

export function createModelSync(options: {
  modelManager: ModelManager
  bus: ModelBus
  log: Log
  /** Milliseconds that `close` waits for the last round. */
  timeout?: number
  role?: NodeRole
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}): ModelSync {
  const { modelManager, bus, log, role = 'all', now = () => performance.now() } = options
  const serves = role === 'serve'
  const { models } = modelManager
  const sharedModels = {
    revenue: new SharedModel('revenue', { models, bus, now, log, serves }),
    margin: new SharedModel('margin', { models, bus, now, log, serves }),
  }
  const sharedCurves = {
    revenue: new SharedCurve('revenue', { models, bus, log, now }),
    margin: new SharedCurve('margin', { models, bus, log, now }),
  }
  // From now on the updates of this node are collected.
  models.publishes = true
  const counts = { sent: 0, merged: 0, refused: 0, old: 0, seen: 0 }
  function allCounts(): ModelSync['counts'] {
    const of =
      <Name extends string>(parts: Record<Mode, { counts: Record<Name, number> }>) =>
      (name: Name) =>
        modes.reduce((sum, mode) => sum + parts[mode].counts[name], 0)
    const [ofModels, ofCurves] = [of(sharedModels), of(sharedCurves)]
    return {
      ...counts,
      refused: counts.refused + ofModels('refused') + ofCurves('refused'),
      dropped: models.counts.dropped,
      shared: ofModels('shared'),
      taken: ofModels('taken'),
      lost: ofModels('lost'),
      curvesShared: ofCurves('shared'),
      curvesAdopted: ofCurves('adopted'),
    }
  }

  async function send(mode: Mode): Promise<void> {
    const outbox = models.takeDelta(mode)
    for (let next = outbox[0]; next !== undefined; next = outbox[0]) {
      await bus.publish(mode, encodeEnvelope(next))
      counts.sent++
      sharedModels[mode].changed()
      sharedCurves[mode].sent(next)
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
    try {
      const result = models.merge(mode, envelope)
      if (result === 'ahead') return false
      if (result === 'merged') {
        sharedModels[mode].changed()
        sharedCurves[mode].changed()
      }
      // Its own deltas come back, too.
      if (envelope.node !== models.node) counts[result]++
    } catch (error) {
      counts.refused++
      log.error({ mode, err: (error as Error).message }, 'a model delta was refused')
    }
    return true
  }

  async function receive(mode: Mode): Promise<void> {
    const model = models.of(mode)
    for (;;) {
      const { deltas, last } = await bus.fetch(mode, model.place)
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

  let joined = false
  const began = now()

  /** Whether this node has all that the others have. */
  async function synchronize(mode: Mode): Promise<boolean> {
    const [shared, curve, state] = [sharedModels[mode], sharedCurves[mode], models.of(mode)]
    if (!joined) await shared.begin()
    if (modelManager.of(mode).isFrozen) return true
    await send(mode)
    state.refits = await shared.look()
    if (!shared.leads) return (await curve.follow()) || shared.follow()
    const { taken } = shared.counts
    const complete = await shared.lead(() => receive(mode))
    if (shared.counts.taken > taken) curve.changed()
    if (complete) await curve.lead(() => send(mode))
    return complete
  }

  async function runRound(): Promise<void> {
    try {
      let complete = true
      for (const mode of modes) complete = (await synchronize(mode)) && complete
      joined ||= complete
    } catch (error) {
      // Redis and the store log a lost connection themselves. The next round sends what is left.
      log.info({ err: (error as Error).message }, 'models were not synchronized')
      // A node that is alone goes on with its own model.
      for (const mode of modes) models.of(mode).refits = !serves
    }
    joined ||= now() - began > joinTimeout
  }

  const round = shareRun(runRound)
  const leases = modelLeases({ modelManager, sharedModels, sharedCurves, log, round })

  const keep = async () => {
    if (joined) await leases.keep()
  }
  const joining = setInterval(() => {
    if (joined) clearInterval(joining)
    else void round()
  }, joinInterval)
  const timers = [joining, setInterval(round, syncInterval), setInterval(keep, keepEvery)]
  for (const timer of timers) timer.unref()

  return {
    get counts() {
      return allCounts()
    },
    get joined() {
      return joined || now() - began > joinTimeout
    },
    round,
    keep,
    async close() {
      for (const timer of timers) clearInterval(timer)
      // If the store of the bus hangs, the last round is given up: the models are saved to disk afterwards.
      await atMost(options.timeout ?? closeTimeout, leases.leave())
    },
  }
}
