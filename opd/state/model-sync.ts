/**
 * Merges the models of several nodes. Each node publishes its own updates (a delta) as soon as the journal of outcomes has
 * settled them. The node that leads merges the deltas of all nodes, each of them once by its envelope, and shares its model.
 * The others take its curve, so the data that all nodes read grows in proportion to their number. A delta that cannot be sent
 * is sent later.
 *
 *   every 0.4 s   renew the lease ▸ exchange: send, and merge what the others sent, if this node leads
 *   every 2 s     a round: the same, and share the model, or receive the curve
 */

import { atMost } from '../base/at-most.ts'
import type { Log } from '../base/log.ts'
import { shareRun, WorkQueue } from '../base/one-at-a-time.ts'
import { type Mode, modes } from '../shared/arms.ts'
import { decodeEnvelope, type Envelope, encodeEnvelope } from './envelope.ts'
import { keepEvery, type ModelBus } from './model-bus.ts'
import type { ModelManager } from './model-manager.ts'
import type { UnsentDelta, UnsentDeltas } from './model-store.ts'
import type { RelayedModels } from './relayed-models.ts'
import { SharedModel } from './shared-model.ts'

/** Milliseconds. */
const syncInterval = 2000
const joinInterval = 250
const joinTimeout = 10_000
const closeTimeout = 2000
/**
 * Bytes of a delta, after which the next one is sent with the next round: 1,700 updates. So a node sends no more than one full
 * delta in two seconds, and the node that leads can merge those of many.
 */
const busyDeltaBytes = 96 * 1024
/** Deltas of a mode that are kept while the store of all nodes does not have them. */
const maxPublished = 100

/** all: prices, and leads if no other node does; train: the same, without traffic of its own; serve: prices, never leads. */
export type NodeRole = 'all' | 'serve' | 'train'

interface ModelSyncOptions {
  modelManager: ModelManager
  bus: ModelBus
  /** Whether a published delta has not reached the store of all nodes. Absent: it has when `publish` resolves. */
  isWaiting?: RelayedModels['isWaiting']
  log: Log
  /** Milliseconds that `close` waits for the last round. */
  timeout?: number
  role?: NodeRole
  /** Milliseconds of a monotonic clock. */
  now?: () => number
  /** false: the caller runs the rounds, as in simulated time. */
  timers?: boolean
}

/** Exchanges model updates with the other nodes, and leads if no other node does. */
export class ModelSync implements UnsentDeltas {
  private readonly modelManager: ModelManager
  private readonly models: ModelManager['models']
  private readonly bus: ModelBus
  private readonly isUnsent: NonNullable<RelayedModels['isWaiting']>
  private readonly log: Log
  private readonly timeout: number
  private readonly serves: boolean
  private readonly now: () => number
  private readonly began: number
  private readonly sharedModels: Readonly<Record<Mode, SharedModel>>
  /** `old`: of an earlier epoch; `seen`: received before. */
  private readonly deltas = { sent: 0, merged: 0, refused: 0, old: 0, seen: 0 }
  private readonly timers: readonly NodeJS.Timeout[]
  /** Deltas that were published, and have not reached the store of all nodes. */
  private readonly published: Record<Mode, { delta: Envelope; bytes: Uint8Array }[]> = {
    revenue: [],
    margin: [],
  }
  private hasJoined = false
  private renewing: Promise<boolean | null> = Promise.resolve(null)
  /** Updates wait for the next round: the last one was large, or could not be sent. */
  private readonly isWaiting: Record<Mode, boolean> = { revenue: false, margin: false }
  /** Of rounds and exchanges. The lease is renewed beside them. */
  private readonly queue = new WorkQueue()

  constructor(options: ModelSyncOptions) {
    const { modelManager, bus, log, role = 'all', timeout = closeTimeout } = options
    const { now = () => performance.now(), timers = true } = options
    this.modelManager = modelManager
    this.models = modelManager.models
    this.bus = bus
    this.isUnsent = options.isWaiting ?? (() => false)
    this.log = log
    this.timeout = timeout
    this.serves = role === 'serve'
    this.now = now
    this.began = now()
    const { models, serves } = this
    const deps = { models, bus, now, log, serves }
    this.sharedModels = {
      revenue: new SharedModel('revenue', deps),
      margin: new SharedModel('margin', deps),
    }
    // From now on the updates of this node are collected.
    models.publishes = true
    this.timers = timers ? this.startTimers() : []
  }

  get counts() {
    const total = { shared: 0, taken: 0, lost: 0, curvesShared: 0, curvesReceived: 0 }
    let { refused } = this.deltas
    for (const mode of modes) {
      const {
        counts: model,
        curve: { counts: curve },
      } = this.sharedModels[mode]
      refused += model.refused + curve.refused
      total.shared += model.shared
      total.taken += model.taken
      total.lost += model.lost
      total.curvesShared += curve.shared
      total.curvesReceived += curve.received
    }
    return { ...this.deltas, ...total, refused, dropped: this.models.counts.dropped }
  }

  /** Whether this node has had the model of the others, or has waited for it for `joinTimeout`. */
  get joined(): boolean {
    return this.hasJoined || this.now() - this.began > joinTimeout
  }

  unsent(takes: boolean): readonly UnsentDelta[] {
    return modes.flatMap((mode) => {
      const outbox = takes ? this.models.takeDelta(mode) : this.models.stateOf(mode).outbox
      const waiting = this.published[mode].filter(({ bytes }) => this.isUnsent(mode, bytes))
      this.published[mode] = waiting.slice(-maxPublished)
      return [...this.published[mode].map(({ delta }) => delta), ...outbox].map((delta) => ({
        id: `${mode} ${delta.node} ${delta.epoch} ${delta.sequence}`,
        mode,
        bytes: () => encodeEnvelope(delta),
      }))
    })
  }

  adopt(deltas: readonly { mode: Mode; bytes: Uint8Array }[]): void {
    for (const { mode, bytes } of deltas) {
      const delta = decodeEnvelope(Buffer.from(bytes))
      if (delta === null) this.refuseDamaged(mode)
      else if (delta.node !== this.models.node) this.models.stateOf(mode).outbox.push(delta)
    }
  }

  /** Runs one round immediately. */
  readonly round = shareRun(() => this.queue.enqueue(() => this.synchronizeAll()))

  private async synchronizeAll(): Promise<void> {
    try {
      let complete = true
      for (const mode of modes) complete = (await this.synchronize(mode)) && complete
      this.hasJoined ||= complete
    } catch (error) {
      this.logFailure(error)
      // A node that is alone goes on with its own model.
      for (const mode of modes) this.models.stateOf(mode).refits = !this.serves
    }
    this.hasJoined ||= this.joined
  }

  /**
   * Between rounds: renews the lease of the node that leads, or takes that of a node that ended. Runs a round if the lease
   * was taken, if there is a new curve, or if there is a refit to share; otherwise exchanges updates.
   */
  async keep(): Promise<void> {
    if (!this.hasJoined) return
    this.renewing = this.renew()
    const isRoundDue = await this.renewing
    if (isRoundDue === true) await this.round()
    if (isRoundDue === false) await this.exchange()
  }

  async close(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer)
    // If the store of the bus hangs, the last round is given up: the models are saved to disk afterwards.
    await atMost(this.timeout, this.leave())
  }

  private startTimers(): NodeJS.Timeout[] {
    const joining = setInterval(() => {
      if (this.hasJoined) clearInterval(joining)
      else void this.round()
    }, joinInterval)
    const timers = [
      joining,
      setInterval(() => void this.round(), syncInterval),
      setInterval(() => void this.keep(), keepEvery),
    ]
    for (const timer of timers) timer.unref()
    return timers
  }

  private async leave(): Promise<void> {
    await this.renewing
    await this.round()
    await this.giveUpLeases().catch((error: Error) => this.logLease(error, 'given up'))
  }

  /** Sends the updates of this node, without a round. Those that could not be sent wait for the next round. */
  private readonly exchange = shareRun(() =>
    this.queue.enqueue(async () => {
      try {
        const learning = modes.filter((mode) => !this.modelManager.learnerOf(mode).isFrozen)
        await this.send(...learning.filter((mode) => !this.isWaiting[mode]))
        for (const mode of learning) if (this.sharedModels[mode].merges) await this.receive(mode)
      } catch (error) {
        this.logFailure(error)
      }
    }),
  )

  /**
   * Sends what this node has trained with until now, if the journal has settled it. Returns whether it was sent. It does not
   * wait for what is trained meanwhile.
   */
  private async send(...sending: readonly Mode[]): Promise<boolean> {
    const outboxes = sending.map((mode) => ({ mode, outbox: this.models.takeDelta(mode) }))
    const taken = new Map(outboxes.map(({ mode, outbox }) => [mode, new Set(outbox)]))
    for (const { mode } of outboxes) this.isWaiting[mode] = true
    const isEmpty = outboxes.every(({ outbox }) => outbox.length === 0)
    if (!isEmpty && !(await this.models.isSettled())) return false
    for (const { mode, outbox } of outboxes) await this.publish(mode, outbox, taken.get(mode)!)
    return true
  }

  /** Publishes the updates of an outbox that were taken. */
  private async publish(
    mode: Mode,
    outbox: Envelope[],
    taken: ReadonlySet<Envelope>,
  ): Promise<void> {
    let last: Envelope | undefined
    for (let [next] = outbox; next !== undefined && taken.has(next); [next] = outbox) {
      last = next
      const bytes = encodeEnvelope(next)
      await this.bus.publish(mode, bytes)
      if (this.isUnsent(mode, bytes)) this.published[mode].push({ delta: next, bytes })
      this.deltas.sent++
      this.sharedModels[mode].sent(next)
      if (outbox[0] === next) outbox.shift()
    }
    this.isWaiting[mode] = (last?.delta.length ?? 0) > busyDeltaBytes
  }

  private refuseDamaged(mode: Mode): void {
    this.deltas.refused++
    this.log.error({ mode }, 'a model delta was refused: damaged')
  }

  /** false: the delta is of a later epoch. */
  private merge(mode: Mode, bytes: Uint8Array): boolean {
    const { deltas, log, models } = this
    const envelope = decodeEnvelope(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    if (envelope === null) {
      this.refuseDamaged(mode)
      return true
    }
    try {
      const result = models.merge(mode, envelope)
      if (result === 'ahead') return false
      if (result === 'merged') this.sharedModels[mode].merged()
      // Its own deltas come back, too.
      if (envelope.node !== models.node) deltas[result]++
    } catch (error) {
      deltas.refused++
      log.error({ mode, err: (error as Error).message }, 'a model delta was refused')
    }
    return true
  }

  private async receive(mode: Mode): Promise<void> {
    const model = this.models.stateOf(mode)
    for (;;) {
      const { deltas, last } = await this.bus.fetch(mode, model.place)
      for (const { place, bytes } of deltas) {
        // A delta of a later epoch, and all after it, wait until this node has followed the roll-back.
        if (!this.merge(mode, bytes)) return
        model.place = place
        // Yield to the event loop between two merges.
        await new Promise(setImmediate)
      }
      model.place = last
      if (deltas.length === 0) return
    }
  }

  /** Returns whether this node has all updates of the others. */
  private async synchronize(mode: Mode): Promise<boolean> {
    const shared = this.sharedModels[mode]
    if (!this.hasJoined) await shared.begin()
    if (this.modelManager.learnerOf(mode).isFrozen) return true
    const send = () => this.send(mode)
    await send()
    this.models.stateOf(mode).refits = await shared.look()
    return shared.leads ? shared.lead(() => this.receive(mode), send) : shared.follow()
  }

  /** null: the store of the bus is away. */
  private readonly renew = shareRun(() =>
    this.renewLeases().catch((error: Error) => {
      this.logLease(error, 'renewed')
      return null
    }),
  )

  /** Renews the leases, or takes those of a node that ended. Returns whether a round is due. */
  private async renewLeases(): Promise<boolean> {
    let due = false
    for (const mode of modes) {
      if (this.modelManager.learnerOf(mode).isFrozen) continue
      due = (await this.sharedModels[mode].keep()) || due
    }
    return due
  }

  /** Gives up the leases, so that another node leads at once. */
  private async giveUpLeases(): Promise<void> {
    for (const mode of modes)
      if (this.sharedModels[mode].leads) await this.sharedModels[mode].leave()
  }

  /** Redis logs a lost connection itself. The next round sends what is left. */
  private logFailure(error: unknown): void {
    this.log.info({ err: (error as Error).message }, 'models were not synchronized')
  }

  private logLease(error: Error, what: string): void {
    this.log.info({ err: error.message }, `the lease of the shared model was not ${what}`)
  }
}
