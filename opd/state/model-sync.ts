/**
 * Merges the models of several nodes. Every two seconds each node publishes its own updates (a delta). The node that leads merges
 * the deltas of all nodes, each of them once by its envelope, and shares its model. The others take its curve, so the data that
 * all nodes read grows in proportion to their number. A delta that cannot be sent is sent later.
 */

import { atMost } from '../base/at-most.ts'
import type { Log } from '../base/log.ts'
import { shareRun } from '../base/one-at-a-time.ts'
import { type Mode, modes } from '../shared/arms.ts'
import { decodeEnvelope, encodeEnvelope } from './envelope.ts'
import type { ModelManager } from './model-manager.ts'
import { SharedCurve } from './shared-curve.ts'
import { keepEvery, type ModelBus, SharedModel } from './shared-model.ts'

/** Milliseconds. */
const syncInterval = 2000
const joinInterval = 250
const joinTimeout = 10_000
const closeTimeout = 2000

/** all: prices, and leads if no other node does; train: the same, without traffic of its own; serve: prices, never leads. */
export type NodeRole = 'all' | 'serve' | 'train'

export type ModelSync = ReturnType<typeof createModelSync>

export function createModelSync(options: {
  modelManager: ModelManager
  bus: ModelBus
  log: Log
  /** Milliseconds that `close` waits for the last round. */
  timeout?: number
  role?: NodeRole
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}) {
  const { modelManager, bus, log, role = 'all', now = () => performance.now() } = options
  const serves = role === 'serve'
  const { models } = modelManager
  const deps = { models, bus, now, log, serves }
  const sharedModels = {
    revenue: new SharedModel('revenue', deps),
    margin: new SharedModel('margin', deps),
  }
  const sharedCurves = {
    revenue: new SharedCurve('revenue', deps),
    margin: new SharedCurve('margin', deps),
  }
  // From now on the updates of this node are collected.
  models.publishes = true
  /** `old`: of an earlier epoch; `seen`: received before. */
  const counts = { sent: 0, merged: 0, refused: 0, old: 0, seen: 0 }
  function allCounts() {
    const total = { shared: 0, taken: 0, lost: 0, curvesShared: 0, curvesAdopted: 0 }
    let { refused } = counts
    for (const mode of modes) {
      const [model, curve] = [sharedModels[mode].counts, sharedCurves[mode].counts]
      refused += model.refused + curve.refused
      total.shared += model.shared
      total.taken += model.taken
      total.lost += model.lost
      total.curvesShared += curve.shared
      total.curvesAdopted += curve.adopted
    }
    return { ...counts, ...total, refused, dropped: models.counts.dropped }
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

  /** Returns whether this node has all updates of the others. */
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
      // Redis logs a lost connection itself. The next round sends what is left.
      log.info({ err: (error as Error).message }, 'models were not synchronized')
      // A node that is alone goes on with its own model.
      for (const mode of modes) models.of(mode).refits = !serves
    }
    joined ||= now() - began > joinTimeout
  }

  const round = shareRun(runRound)

  /** Renews the leases, or takes those of a node that ended. Runs a round if one is due. */
  async function renewLeases(): Promise<void> {
    let due = false
    for (const mode of modes) {
      if (modelManager.of(mode).isFrozen) continue
      due = (await sharedModels[mode].keep()) || due
      due = (await sharedCurves[mode].keep(sharedModels[mode].leads)) || due
    }
    if (due) await round()
  }

  /** Gives up the leases, so that another node leads at once. */
  async function giveUpLeases(): Promise<void> {
    for (const mode of modes)
      if (sharedModels[mode].leads) {
        await sharedCurves[mode].leave()
        await sharedModels[mode].leave()
      }
  }

  const logged = (what: string) => (error: Error) =>
    log.info({ err: error.message }, `the lease of the shared model was not ${what}`)
  let renewing = Promise.resolve()
  const renew = shareRun(() => renewLeases().catch(logged('renewed')))
  const keep = async () => {
    if (!joined) return
    renewing = renew()
    await renewing
  }
  const joining = setInterval(() => {
    if (joined) clearInterval(joining)
    else void round()
  }, joinInterval)
  const timers = [joining, setInterval(round, syncInterval), setInterval(keep, keepEvery)]
  for (const timer of timers) timer.unref()

  async function leave(): Promise<void> {
    await renewing
    await round()
    await giveUpLeases().catch(logged('given up'))
  }

  return {
    get counts() {
      return allCounts()
    },
    /** Whether this node has had the model of the others, or has waited for it for `joinTimeout`. */
    get joined() {
      return joined || now() - began > joinTimeout
    },
    /** Runs one round immediately. */
    round,
    /**
     * Between rounds: renews the lease of the node that leads, or takes that of a node that ended. Runs a round if the lease
     * was taken, if there is a new curve, or if there is a refit to share.
     */
    keep,
    async close() {
      for (const timer of timers) clearInterval(timer)
      // If the store of the bus hangs, the last round is given up: the models are saved to disk afterwards.
      await atMost(options.timeout ?? closeTimeout, leave())
    },
  }
}
