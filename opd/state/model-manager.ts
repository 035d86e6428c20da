/**
 * Manages the learner of each mode: restores it at start, advances its clock and refits it by timers, and writes snapshots by
 * a timer and at exit. A damaged snapshot is refused with an error in the log, and the snapshot before it is used. Executes the
 * operators' commands: freeze, roll back, forget a supplier.
 */

import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import { OnlineLearner } from '../learner/learner.ts'
import { isOfOtherVersion } from '../learner/snapshot.ts'
import type { LearnerOptions, NodeLearner } from '../learner-types.ts'
import { type Mode, modes } from '../shared/arms.ts'
import { initialControl, type ModelControl, type ModelControlSource } from './model-control.ts'
import { ModelStore } from './model-store.ts'
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
  create?: (options: LearnerOptions, snapshot?: Uint8Array) => NodeLearner
  /** Milliseconds between two snapshots, and between two calls of `Learner.advance`. */
  snapshotEvery?: number
  advanceEvery?: number
  /** Milliseconds between two looks whether a refit is due. */
  refitEvery?: number
}

export type ModelManager = ReturnType<typeof createModelManager>
type Bases = Partial<Record<Mode, Uint8Array | null>>

/** This file exists between an orderly exit and the next start. */
const cleanExitFile = 'ended-in-order'

export function createModelManager(options: ModelManagerOptions) {
  const { dir, attributionWindow, now, log, trains = true } = options
  const create = options.create ?? ((...from) => new OnlineLearner(...from))
  if (dir !== null) {
    mkdirSync(dir, { recursive: true })
    removeIncomplete(dir)
  }
  const started = now()
  let control = initialControl
  const models = new ModelStore({
    dir,
    now,
    log,
    create: (learned, carries = true) =>
      create({ attributionWindow, carries, slices: true, trains }, learned),
    clean: dir !== null && takeCleanExitFile(dir),
  })

  let last: Promise<unknown> = Promise.resolve()
  /** Runs saves and roll-backs one after the other. */
  function enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work)
    // A failure rejects the promise of its caller only; the next one begins in any case.
    last = result.catch(() => undefined)
    return result
  }
  const save = () => enqueue(() => models.saveAll())
  /** The snapshot at exit. If it was written, the exit is marked as orderly. */
  async function saveLast(): Promise<void> {
    if ((await save()) && dir !== null) await writeDurably(dir, cleanExitFile, Buffer.alloc(0))
  }

  /** Starts an epoch with the model of the store. If it has none, or it is damaged, with the model of this node. */
  async function startEpoch(mode: Mode, epoch: number, base: Uint8Array | null): Promise<void> {
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

  async function apply(next: ModelControl, bases: Bases): Promise<void> {
    for (const mode of modes) {
      const epoch = next.epochs[mode]
      if (epoch <= models.of(mode).epoch) continue
      await startEpoch(mode, epoch, bases[mode] ?? null)
      await models.save(mode)
    }
    for (const mode of modes) {
      const { learner } = models.of(mode)
      learner.rename(next.resets)
      if (learner.isFrozen !== next.frozen) learner.freeze(next.frozen)
    }
    if (next.frozen !== control.frozen)
      log.warn({}, next.frozen ? 'models frozen: they decide and do not learn' : 'models learn')
    control = next
  }

  /** The store is read outside of the queue, so that a store that hangs does not delay a snapshot. */
  async function execute(source: ModelControlSource): Promise<void> {
    const next = await source.read()
    const bases: Bases = {}
    for (const mode of modes)
      if (next.epochs[mode] > models.of(mode).epoch) bases[mode] = await source.base(mode)
    await enqueue(() => apply(next, bases))
    for (const mode of modes) {
      const { epoch } = models.of(mode)
      if (epoch <= next.epochs[mode]) continue
      await source.raise(mode, epoch, await enqueue(() => models.packed(mode)))
    }
  }

  const refitter = new Refitter(log, (learner, result) => {
    const mode = modes.find((each) => models.of(each).learner === learner)
    if (mode !== undefined) models.pushRefit(mode, result)
  })
  const timers = [
    setInterval(() => {
      for (const mode of modes) models.of(mode).learner.advance(now())
    }, options.advanceEvery ?? 50),
    setInterval(() => void save(), options.snapshotEvery ?? 300_000),
    setInterval(
      () =>
        refitter.poll(
          modes
            .map((mode) => models.of(mode))
            .flatMap(({ refits, isWhole, learner }) => (refits && isWhole ? learner : [])),
          now(),
        ),
      options.refitEvery ?? 1000,
    ),
  ]
  for (const timer of timers) timer.unref()

  return {
    of: (mode: Mode) => models.of(mode).learner,
    version: (mode: Mode) => models.of(mode).version,
    epoch: (mode: Mode) => models.of(mode).epoch,
    /** Seconds since the last snapshot of a mode was written or restored; without one, since the start. */
    age: (mode: Mode) => (now() - (models.of(mode).at ?? started)) / 1000,
    /** Counts of snapshots that were refused, and of writes that failed. */
    failures: models.counts,
    /** Counts of refits that were applied, and that failed. */
    refits: refitter.counts,
    /** The operators' commands that this node executed last. */
    get control() {
      return control
    },
    /** For `ModelSync`. */
    models,
    save: async () => void (await save()),
    /** Executes the commands in the store. Rejects, and changes nothing, if the store cannot be read. */
    execute,
    async close() {
      for (const timer of timers) clearInterval(timer)
      await refitter.close()
      await saveLast()
    },
  }
}

function takeCleanExitFile(dir: string): boolean {
  const file = join(dir, cleanExitFile)
  const clean = existsSync(file)
  rmSync(file, { force: true })
  return clean
}
