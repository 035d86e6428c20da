/**
 * Keeps the learner of each mode over the life of the process and beyond it: restored at start, settled by a timer,
 * written to disk on a timer and at exit. A damaged snapshot is refused with an error in the log, and the snapshot
 * before it is used. Follows what operators decided: freeze, roll back, forget a supplier.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createLearner } from '../learner.ts'
import type { Learners } from '../ports.ts'
import { type Mode, modes } from '../pricing/arms.ts'
import type { ManagedLearner } from './managed-learner.ts'
import { initialControl, type ModelControl, type ModelControlSource } from './model-control.ts'
import { ModelStore } from './model-store.ts'
import { sweep, writeDurably } from './snapshots.ts'

export { type Mode, modes } from '../pricing/arms.ts'

export interface ManagerLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface ModelManagerOptions {
  /** Where snapshots live; null: nowhere. */
  dir: string | null
  /** Milliseconds. */
  attributionWindow: number
  now: () => number
  log: ManagerLog
  create?: typeof createLearner
  /** Milliseconds between two snapshots, and between two settlings. */
  snapshotEvery?: number
  advanceEvery?: number
}

export interface ModelManager extends Learners {
  of(mode: Mode): ManagedLearner
  /** Seconds since the last snapshot of a mode was made or restored; null: none. */
  age(mode: Mode): number | null
  /** Snapshots that were refused, and writes that failed. */
  readonly failures: { readonly refused: number; readonly writes: number }
  /** What this node followed last. */
  readonly control: ModelControl
  /** For the exchange. */
  readonly models: ModelStore
  save(): Promise<void>
  close(): Promise<void>
  /** Follows what the store says. Rejects if the store does not answer; nothing is changed then. */
  follow(source: ModelControlSource): Promise<void>
}

type Bases = Partial<Record<Mode, Uint8Array | null>>

/** This file exists between an orderly exit and the next start. */
const orderMark = 'ended-in-order'

export function createModelManager(options: ModelManagerOptions): ModelManager {
  const { dir, attributionWindow, now, log, create = createLearner } = options
  if (dir !== null) {
    mkdirSync(dir, { recursive: true })
    sweep(dir)
  }
  let control = initialControl
  const models = new ModelStore({
    dir,
    now,
    log,
    create: (learned, carries = true) =>
      create({ attributionWindow, carries, slices: true }, learned),
    clean: dir !== null && takeMark(dir),
  })

  let last: Promise<unknown> = Promise.resolve()
  /** One thing after the other: saving, rolling back, taking over. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = last.then(work)
    last = turn.catch(() => undefined)
    return turn
  }
  const save = () => inTurn(() => models.saveAll())
  /** The last one: says that this life ended in order. */
  async function saveLast(): Promise<void> {
    if ((await save()) && dir !== null) await writeDurably(dir, orderMark, Buffer.alloc(0))
  }

  /** Starts the epoch of the store; without its model, or if that is damaged, from this node's own. */
  async function begin(mode: Mode, epoch: number, base: Uint8Array | null): Promise<void> {
    log.warn({ mode, epoch, base: base !== null }, 'model rolled back')
    try {
      if (base !== null) return models.begin(mode, epoch, base)
    } catch (error) {
      models.counts.refused++
      log.error({ mode, epoch, err: (error as Error).message }, 'the stored model was refused')
    }
    models.begin(mode, epoch, await models.packed(mode))
  }

  async function apply(next: ModelControl, bases: Bases): Promise<void> {
    for (const mode of modes) {
      const epoch = next.epochs[mode]
      if (epoch <= models.of(mode).epoch) continue
      await begin(mode, epoch, bases[mode] ?? null)
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

  /** The store is asked outside of the queue: one that hangs delays no snapshot. */
  async function follow(source: ModelControlSource): Promise<void> {
    const next = await source.read()
    const bases: Bases = {}
    for (const mode of modes)
      if (next.epochs[mode] > models.of(mode).epoch) bases[mode] = await source.base(mode)
    await inTurn(() => apply(next, bases))
    for (const mode of modes) {
      const { epoch } = models.of(mode)
      if (epoch <= next.epochs[mode]) continue
      await source.raise(mode, epoch, await inTurn(() => models.packed(mode)))
    }
  }

  const timers = [
    setInterval(() => {
      for (const mode of modes) models.of(mode).learner.advance(now())
    }, options.advanceEvery ?? 50),
    setInterval(() => void save(), options.snapshotEvery ?? 300_000),
  ]
  for (const timer of timers) timer.unref()

  return {
    of: (mode) => models.of(mode).learner,
    version: (mode) => models.of(mode).version,
    age(mode) {
      const { at } = models.of(mode)
      return at === null ? null : (now() - at) / 1000
    },
    failures: models.counts,
    get control() {
      return control
    },
    models,
    save: async () => void (await save()),
    async close() {
      for (const timer of timers) clearInterval(timer)
      await saveLast()
    },
    follow,
  }
}

function takeMark(dir: string): boolean {
  const mark = join(dir, orderMark)
  const clean = existsSync(mark)
  rmSync(mark, { force: true })
  return clean
}
