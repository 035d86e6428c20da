/** The models of one node: the learner of each mode, merged with other nodes' deltas, and its snapshots on disk. */

import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { atMost } from '../base/at-most.ts'
import type { Log } from '../base/log.ts'
import { inSlices } from '../base/slices.ts'
import { isOfOtherVersion } from '../learner/snapshot.ts'
import { isRefit } from '../learner.ts'
import type { NodeLearner } from '../learner-types.ts'
import { type Mode, modes } from '../shared/arms.ts'
import { decodeEnvelope, type Envelope, encodeEnvelope, VersionVector } from './envelope.ts'
import { ManagedLearner } from './managed-learner.ts'
import {
  outdated,
  pack,
  type SnapshotHead,
  type SnapshotMeta,
  snapshotName,
  snapshots,
  unpack,
  writeDurably,
} from './snapshots.ts'

interface ModelStoreOptions {
  /** Folder of the snapshots; null: none are written. */
  dir: string | null
  /** `carries` false: the exposures that are pending in the snapshot are dropped. */
  create: (learned?: Uint8Array, carries?: boolean) => NodeLearner
  now: () => number
  log: Log
  /** The last process ended in order, so its newest snapshot is complete. */
  clean: boolean
  journal: TrainingJournal
}

/** The journal of the outcomes that trained the models of this node. */
export interface TrainingJournal {
  /**
   * Returns whether all outcomes that were applied before the call are settled, so that no other node applies them again. The
   * updates of the models that they trained have been taken.
   */
  settleApplied(): Promise<boolean>
}

/** An update that other nodes do not have yet. */
export interface UnsentDelta {
  id: string
  mode: Mode
  /** Its envelope. */
  bytes: () => Uint8Array
}

/** What a node has learned and not sent. */
export interface UnsentDeltas {
  /**
   * All updates that wait.
   *
   * @param takes make one of what was learned until this moment, too
   */
  unsent(takes: boolean): readonly UnsentDelta[]
  /**
   * Sends updates of a process that has ended, perhaps after it had sent them.
   *
   * @param deltas `bytes`: an envelope, as `UnsentDelta` has it; a damaged one is refused and counted
   */
  adopt(deltas: readonly { mode: Mode; bytes: Uint8Array }[]): void
}

/** The model of one mode. */
interface ModelState {
  learner: ManagedLearner
  /** Version of the model. Nodes that share a curve have the version of that curve. */
  version: number
  /** Whether `version` is that of a shared curve; otherwise each snapshot has the next one. */
  isShared: boolean
  /** Time at which the last snapshot was written or restored, milliseconds; null: never. */
  snapshotAt: number | null
  epoch: number
  seen: VersionVector
  /** Position in the stream of deltas, up to which this node read them when it last led. */
  place: string
  /** Whether it has the settled rows of all nodes. A node that adopts a curve does not. */
  isWhole: boolean
  /** Sequence number of the last delta of this node. */
  sequence: number
  outbox: Envelope[]
  /** Whether this node refits. Of nodes that share a model, one does. */
  refits: boolean
}

/** Deltas that wait to be sent. Beyond this number the oldest is dropped and counted; this node keeps what it learned. */
const maxOutbox = 100
/** Milliseconds that a model waits for the journal before it is published or saved. */
const settleTimeout = 1000
/** Bytes of a delta without updates: head and checksum. */
const emptyDeltaBytes = 16

export class ModelStore {
  /** Identifies this process. */
  readonly node = randomUUID()
  readonly counts = { refused: 0, writes: 0, dropped: 0 }
  /** Whether deltas are collected for other nodes. */
  publishes = false
  private readonly options: ModelStoreOptions
  private readonly states: Readonly<Record<Mode, ModelState>>

  constructor(options: ModelStoreOptions) {
    this.options = options
    this.states = { revenue: this.restored('revenue'), margin: this.restored('margin') }
  }

  stateOf(mode: Mode): ModelState {
    return this.states[mode]
  }

  private restored(mode: Mode): ModelState {
    const { dir, log, create, clean } = this.options
    const list = snapshots(dir === null ? [] : readdirSync(dir), mode)
    let ofOtherVersions = 0
    const logOtherVersions = (next: string) => {
      if (ofOtherVersions > 0)
        log.info({ mode, snapshots: ofOtherVersions }, `snapshots of another version: ${next}`)
    }
    for (const [place, { file, version, writtenAt }] of list.entries()) {
      try {
        const { meta, unsent, learned } = unpack(readFileSync(join(dir!, file)))
        // After a crash, wins of pending exposures may be lost: the model would learn them as losses.
        const learner = new ManagedLearner(create(learned, clean && place === 0), meta.epoch)
        const outbox = unsent.flatMap((bytes) => decodeEnvelope(Buffer.from(bytes)) ?? [])
        logOtherVersions('an older snapshot of this version is restored')
        log.info({ mode, file }, 'model restored')
        return { ...fresh(learner, meta), outbox, version, snapshotAt: writtenAt }
      } catch (error) {
        if (isOfOtherVersion(error)) {
          ofOtherVersions++
          continue
        }
        this.counts.refused++
        log.error(
          { mode, file, err: (error as Error).message },
          'model snapshot refused, the one before it is tried',
        )
      }
    }
    logOtherVersions('the model starts without them')
    const meta = { epoch: 0, seen: [], place: '0', isWhole: true }
    return fresh(new ManagedLearner(create(), meta.epoch), meta)
  }

  /** Moves unsent updates to the outbox, so that a snapshot and later deltas do not overlap. */
  takeDelta(mode: Mode): Envelope[] {
    const state = this.states[mode]
    if (!this.publishes || state.learner.isFrozen) return state.outbox
    const delta = state.learner.inner.delta()
    if (delta.length <= emptyDeltaBytes) return state.outbox
    this.push(state, state.outbox, delta)
    return state.outbox
  }

  /** Sends the result of a refit of this node, which it has applied, to the other nodes. */
  pushRefit(mode: Mode, result: Uint8Array): void {
    const outbox = this.takeDelta(mode)
    if (this.publishes) this.push(this.states[mode], outbox, result)
  }

  private push(state: ModelState, outbox: Envelope[], delta: Uint8Array): void {
    state.sequence++
    state.seen.addSequence(this.node, state.sequence)
    outbox.push({ node: this.node, epoch: state.epoch, sequence: state.sequence, delta })
    if (outbox.length <= maxOutbox) return
    outbox.shift()
    this.counts.dropped++
  }

  /**
   * Whether what this node has trained with until now is settled in the journal. A model that leaves this process before may
   * be trained twice with an outcome: this process ends, and another one applies what the journal still has.
   */
  async isSettled(): Promise<boolean> {
    for (const mode of modes) this.takeDelta(mode)
    let settled = false
    const settling = this.options.journal.settleApplied().then((is) => {
      settled = is
    })
    await atMost(settleTimeout, settling)
    return settled
  }

  /** Merges a delta of another node. `ahead`: it is of a later epoch, `old`: of an earlier one. */
  merge(mode: Mode, envelope: Envelope): 'merged' | 'seen' | 'old' | 'ahead' {
    const state = this.states[mode]
    if (envelope.epoch > state.epoch) return 'ahead'
    if (envelope.epoch < state.epoch) return 'old'
    if (state.seen.has(envelope.node, envelope.sequence)) return 'seen'
    if (isRefit(envelope.delta)) state.learner.inner.applyRefit(envelope.delta)
    else state.learner.inner.merge(envelope.delta)
    state.seen.addSequence(envelope.node, envelope.sequence)
    return 'merged'
  }

  /**
   * A snapshot, made in slices, with the version vector of the deltas in it.
   *
   * @param mode whose model is packed
   */
  async packed(mode: Mode): Promise<Buffer> {
    const state = this.states[mode]
    let head!: SnapshotHead
    // Metadata is taken at the same moment as the model. Between slices the event loop is free.
    const snapshotting = state.learner.inner.snapshotting(() => {
      const unsent = this.takeDelta(mode).map(encodeEnvelope)
      const { epoch, seen, place, isWhole } = state
      head = { meta: { epoch, seen: seen.rows(), place, isWhole }, unsent }
    })
    const learned = await inSlices(snapshotting)
    return pack(head, learned)
  }

  /** Replaces the model by `base` and starts an epoch. Throws, and changes nothing, if `base` is damaged. */
  startEpoch(mode: Mode, epoch: number, base: Uint8Array): void {
    const state = this.states[mode]
    const { meta, learned } = unpack(base)
    // Deltas of an epoch are numbered from 1, and a model that was rolled back to has none of them.
    const isOfEpoch = meta.epoch === epoch
    const seen = new VersionVector(isOfEpoch ? meta.seen : [])
    if (!isOfEpoch) state.sequence = 0
    // Wins of its pending exposures are of another epoch, or are reported to another node.
    state.learner.replace(this.options.create(learned, false), epoch)
    Object.assign(state, { epoch, seen, outbox: [], isWhole: meta.isWhole })
  }

  /** Whether this node has restored or shared no model. */
  isFresh(mode: Mode): boolean {
    const { place, version } = this.states[mode]
    return place === '0' && version === 0
  }

  /**
   * Takes the shared model. Updates of this node that it lacks come back through the stream. false: it is of another epoch.
   * Throws, and changes nothing, if `base` is damaged.
   */
  receive(mode: Mode, base: Uint8Array): boolean {
    const state = this.states[mode]
    const { meta, learned } = unpack(base)
    if (meta.epoch !== state.epoch) return false
    this.takeDelta(mode)
    if (this.isFresh(mode)) state.learner.adopt(this.options.create(learned, false))
    else state.learner.inner.resume(learned)
    const { place, isWhole } = meta
    Object.assign(state, { seen: new VersionVector(meta.seen), place, isWhole })
    return true
  }

  async save(mode: Mode): Promise<void> {
    const { dir, now } = this.options
    if (dir === null) return
    const state = this.states[mode]
    const time = now()
    const version = state.isShared ? state.version : state.version + 1
    const snapshot = await this.packed(mode)
    // Without the database it is written all the same: a model that knows a few outcomes twice is better than an old one.
    await this.isSettled()
    await writeDurably(dir, snapshotName(mode, version, time), snapshot)
    // A curve that was adopted meanwhile has a later one.
    state.version = Math.max(version, state.version)
    state.snapshotAt = time
    const list = snapshots(await readdir(dir), mode)
    const replaced = list.filter((other) => other.version === version && other.writtenAt < time)
    const kept = list.filter((other) => !replaced.includes(other))
    for (const { file } of [...replaced, ...outdated(kept, time)]) await unlink(join(dir, file))
  }

  /** Writes a snapshot of each mode; a frozen model is written once. false: a write failed. */
  async saveAll(): Promise<boolean> {
    let saved = true
    for (const mode of modes)
      try {
        const { learner, snapshotAt } = this.states[mode]
        if (!learner.isFrozen || snapshotAt === null) await this.save(mode)
      } catch (error) {
        saved = false
        this.counts.writes++
        this.options.log.error(
          { mode, err: (error as Error).message },
          'a model snapshot was not written, the model continues to learn',
        )
      }
    return saved
  }
}

const fresh = (
  learner: ManagedLearner,
  { epoch, seen, place, isWhole }: SnapshotMeta,
): ModelState => ({
  learner,
  version: 0,
  isShared: false,
  snapshotAt: null,
  epoch,
  seen: new VersionVector(seen),
  place,
  isWhole,
  sequence: 0,
  outbox: [],
  refits: true,
})
