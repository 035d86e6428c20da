/**
 * Manages the learner of each mode: restores it at start, advances its clock and refits it by timers, and writes snapshots by
 * a timer and at exit. A damaged snapshot is refused with an error in the log, and the snapshot before it is used. Executes the
 * operators' commands: freeze, roll back, forget a supplier.
 */

import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import { WorkQueue } from '../base/one-at-a-time.ts'
import { OnlineLearner } from '../learner/learner.ts'
import { isOfOtherVersion } from '../learner/snapshot.ts'
import type { LearnerOptions, NodeLearner } from '../learner-types.ts'
import type { Learners } from '../ports.ts'
import { type Mode, modes } from '../shared/arms.ts'
import type { ManagedLearner } from './managed-learner.ts'
import { initialControl, type ModelControl, type ModelControlSource } from './model-control.ts'
import { ModelStore, type TrainingJournal } from './model-store.ts'
import { Refitter } from './refitter.ts'
import { removeIncomplete, writeDurably } from './snapshots.ts'

export interface ModelManagerOptions {
  /** Folder of the snapshots; null: none are written. */
  dir: string | null
  /** Milliseconds. */
  attributionWindow: number
  now: () => number
  log: Log
  /** false: the models are trained by other nodes. */
  trains?: boolean
  /** Absent: the outcomes that train these models are in no journal. */
  journal?: TrainingJournal
  create?: (options: LearnerOptions, snapshot?: Uint8Array) => NodeLearner
  /** Milliseconds between two snapshots, and between two calls of `Learner.advance`. */
  snapshotEvery?: number
  advanceEvery?: number
  /** Milliseconds between two looks whether a refit is due. */
  refitEvery?: number
}

type Bases = Partial<Record<Mode, Uint8Array | null>>

/** This file exists between an orderly exit and the next start. */
const cleanExitFile = 'ended-in-order'
const noJournal: TrainingJournal = { settleApplied: async () => true }

/**
 * The models of this process: trains them, writes and restores snapshots, and executes commands (freeze, roll back,
 * reset).
 */
export class ModelManager implements Learners {
  readonly models: ModelStore
  /** Counts of snapshots that were refused, and of writes that failed. */
  readonly failures: ModelStore['counts']
  readonly refitter: Refitter
  private readonly dir: string | null
  private readonly now: () => number
  private readonly log: Log
  private readonly started: number
  private readonly timers: readonly NodeJS.Timeout[]
  private executed = initialControl
  /** Of saves and roll-backs. */
  private readonly queue = new WorkQueue()

  constructor(options: ModelManagerOptions) {
    const { dir, attributionWindow, now, log, trains = true, journal = noJournal } = options
    const create = options.create ?? ((...from) => new OnlineLearner(...from))
    if (dir !== null) {
      mkdirSync(dir, { recursive: true })
      removeIncomplete(dir)
    }
    this.dir = dir
    this.now = now
    this.log = log
    this.started = now()
    this.models = new ModelStore({
      dir,
      now,
      log,
      create: (learned, carries = true) =>
        create({ attributionWindow, carries, slices: true, trains }, learned),
      clean: dir !== null && takeCleanExitFile(dir),
      journal,
    })
    this.failures = this.models.counts
    this.refitter = new Refitter(log, (learner, result) => {
      const mode = modes.find((mode) => this.models.stateOf(mode).learner === learner)
      if (mode !== undefined) this.models.pushRefit(mode, result)
    })
    this.timers = [
      setInterval(() => this.advance(), options.advanceEvery ?? 50),
      setInterval(() => void this.save(), options.snapshotEvery ?? 300_000),
      setInterval(() => this.refit(), options.refitEvery ?? 1000),
    ]
    for (const timer of this.timers) timer.unref()
  }

  learnerOf(mode: Mode): ManagedLearner {
    return this.models.stateOf(mode).learner
  }

  version(mode: Mode): number {
    return this.models.stateOf(mode).version
  }

  epoch(mode: Mode): number {
    return this.models.stateOf(mode).epoch
  }

  /**
   * Seconds since the last snapshot was written or restored; without one, since the start.
   *
   * @param mode whose snapshots are meant
   */
  age(mode: Mode): number {
    return (this.now() - (this.models.stateOf(mode).snapshotAt ?? this.started)) / 1000
  }

  /** The operators' commands that this node executed last. */
  get control(): ModelControl {
    return this.executed
  }

  /** Returns whether all snapshots were written. */
  save(): Promise<boolean> {
    return this.queue.enqueue(() => this.models.saveAll())
  }

  /**
   * Executes the commands in the store: freeze, roll back, reset. The store is read outside of the queue, so that a store that
   * hangs does not delay a snapshot.
   *
   * @param source the commands. If the epoch of this node is later than the stored one, it is raised there.
   * @throws and changes nothing if the store cannot be read
   */
  async execute(source: ModelControlSource): Promise<void> {
    const { models } = this
    const next = await source.read()
    const bases: Bases = {}
    for (const mode of modes)
      if (next.epochs[mode] > models.stateOf(mode).epoch) bases[mode] = await source.base(mode)
    await this.queue.enqueue(() => this.apply(next, bases))
    for (const mode of modes) {
      const { epoch } = models.stateOf(mode)
      if (epoch <= next.epochs[mode]) continue
      await source.raise(mode, epoch, await this.queue.enqueue(() => models.packed(mode)))
    }
  }

  /** Writes the last snapshots. If they were written, the exit is marked as orderly. */
  async close(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer)
    await this.refitter.close()
    if ((await this.save()) && this.dir !== null)
      await writeDurably(this.dir, cleanExitFile, Buffer.alloc(0))
  }

  private advance(): void {
    for (const mode of modes) this.learnerOf(mode).advance(this.now())
  }

  private refit(): void {
    const states = modes.map((mode) => this.models.stateOf(mode))
    const due = states.filter(({ refits, isWhole }) => refits && isWhole)
    this.refitter.poll(
      due.map(({ learner }) => learner),
      this.now(),
    )
  }

  private async apply(next: ModelControl, bases: Bases): Promise<void> {
    const { models, log } = this
    for (const mode of modes) {
      const epoch = next.epochs[mode]
      if (epoch <= models.stateOf(mode).epoch) continue
      await this.startEpoch(mode, epoch, bases[mode] ?? null)
      await models.save(mode)
    }
    for (const mode of modes) {
      const { learner } = models.stateOf(mode)
      learner.rename(next.resets)
      if (learner.isFrozen !== next.frozen) learner.freeze(next.frozen)
    }
    if (next.frozen !== this.executed.frozen)
      log.warn({}, next.frozen ? 'models frozen: they decide and do not learn' : 'models learn')
    this.executed = next
  }

  /** Starts an epoch with the model of the store. If it has none, or it is damaged, with the model of this node. */
  private async startEpoch(mode: Mode, epoch: number, base: Uint8Array | null): Promise<void> {
    const { models, log } = this
    log.warn({ mode, epoch, base: base !== null }, 'model rolled back')
    try {
      if (base !== null) return models.startEpoch(mode, epoch, base)
    } catch (error) {
      if (isOfOtherVersion(error))
        log.info(
          { mode, epoch },
          'the stored model is of another version: the epoch starts without it',
        )
      else {
        models.counts.refused++
        log.error({ mode, epoch, err: (error as Error).message }, 'the stored model was refused')
      }
    }
    models.startEpoch(mode, epoch, await models.packed(mode))
  }
}

function takeCleanExitFile(dir: string): boolean {
  const file = join(dir, cleanExitFile)
  const clean = existsSync(file)
  rmSync(file, { force: true })
  return clean
}
