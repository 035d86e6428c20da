/**
 * Keeps the learner of each mode over the life of the process and beyond it: restored at start, settled by a timer,
 * written to disk on a timer and at exit. A snapshot that is damaged is refused loudly and the one before it serves.
 * Does what operators say: freeze, roll back, forget a supplier.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Mode, modes } from '../arms.ts'
import { createLearner } from '../learner.ts'
import type { Learners } from '../ports.ts'
import {
  type Control,
  controlFile,
  joinControl,
  readControl,
  sameControl,
  spellControl,
  startControl,
} from './control.ts'
import type { HeldLearner } from './held-learner.ts'
import { type ModelCommand, watchCommands } from './model-commands.ts'
import { Models } from './models.ts'
import { snapshots, sweep, writeDurably } from './snapshots.ts'

export { type Mode, modes } from '../arms.ts'

export interface KeeperLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface KeeperOptions {
  /** Where snapshots live; null: nowhere. */
  dir: string | null
  /** Milliseconds. */
  attributionWindow: number
  now: () => number
  log: KeeperLog
  create?: typeof createLearner
  /** Milliseconds between two snapshots, two settlings, two looks for commands. */
  snapshotEvery?: number
  advanceEvery?: number
  commandsEvery?: number
}

/** The models that epochs begin with; absent: nobody has it. */
export type Bases = Partial<Record<Mode, Buffer>>

export interface Keeper extends Learners {
  of(mode: Mode): HeldLearner
  /** Seconds since the last snapshot of a mode was made or restored; null: none. */
  age(mode: Mode): number | null
  /** Snapshots that were refused, and writes that failed. */
  readonly failures: { readonly refused: number; readonly writes: number }
  readonly control: Control
  /** For the exchange. */
  readonly models: Models
  save(): Promise<void>
  close(): Promise<void>
  /** Does one command; the answer is for the person who gave it. Rejects with a sentence for them. */
  obey(command: ModelCommand): Promise<string>
  /** Takes over what other nodes were told. */
  adopt(told: Control, bases: Bases): Promise<void>
  /** The present model, for nodes that join its epoch. */
  base(mode: Mode): Promise<Buffer>
}

/** Stands from the end of a life that ended in order to the start of the next. */
const orderMark = 'ended-in-order'
const supplierId = /^[a-z0-9][a-z0-9_-]{0,62}$/

export function createKeeper(options: KeeperOptions): Keeper {
  const { dir, attributionWindow, now, log, create = createLearner } = options
  if (dir !== null) {
    mkdirSync(dir, { recursive: true })
    sweep(dir)
  }
  let control = restoredControl(dir, log)
  const models = new Models({
    dir,
    now,
    log,
    create: (learned, carries = true) =>
      create({ attributionWindow, carries, slices: true }, learned),
    epoch: (mode) => control.epochs[mode],
    clean: dir !== null && takeMark(dir),
  })
  // A model whose rollback did not reach the disk is of the epoch before; other nodes tell it again.
  for (const mode of modes) control.epochs[mode] = models.of(mode).epoch
  apply(control)

  /** Freezes and renames as control says; epochs are changed with their models. */
  function apply(next: Control): void {
    control = next
    for (const mode of modes) {
      const { learner } = models.of(mode)
      learner.rename(next.resets)
      if (learner.isFrozen !== next.frozen.is) learner.freeze(next.frozen.is)
    }
  }

  async function say(said: Partial<Control>): Promise<void> {
    apply(joinControl(control, { ...startControl(), ...said }))
    if (dir !== null) await writeDurably(dir, controlFile, Buffer.from(spellControl(control)))
  }

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

  async function rollBack(mode: Mode, file: string): Promise<void> {
    const epoch = Math.max(control.epochs[mode] + 1, now())
    models.begin(mode, epoch, await readFile(join(dir!, file)))
    control = { ...control, epochs: { ...control.epochs, [mode]: epoch } }
    // On disk the model goes first: without it the word of a new epoch means nothing.
    await models.save(mode)
    await say({})
  }

  async function rollback({ id }: ModelCommand): Promise<string> {
    const files = dir === null ? [] : await readdir(dir)
    const wanted = modes.flatMap((mode) => {
      const list = snapshots(files, mode)
      const found =
        id === undefined ? list[1] : list.find(({ version }) => `${mode}-${version}` === id)
      return found === undefined ? [] : [{ mode, ...found }]
    })
    if (wanted.length === 0)
      throw new Error(id === undefined ? 'there is no earlier snapshot' : `no snapshot ${id}`)
    for (const { mode, file } of wanted) await rollBack(mode, file)
    return `rolled back to ${wanted.map(({ mode, version }) => `${mode}-${version}`).join(' and ')}`
  }

  async function frozen(is: boolean): Promise<string> {
    await say({ frozen: { at: Math.max(now(), control.frozen.at + 1), is } })
    return is ? 'frozen: decides, does not learn' : 'learning'
  }

  async function reset({ supplier = '' }: ModelCommand): Promise<string> {
    if (!supplierId.test(supplier)) throw new Error('no id of a supplier')
    await say({ resets: { [supplier]: Math.max(now(), (control.resets[supplier] ?? 0) + 1) } })
    return `${supplier} is forgotten`
  }

  type Does = (command: ModelCommand) => Promise<string>
  const verbs: Readonly<Record<ModelCommand['verb'], Does>> = {
    freeze: () => frozen(true),
    unfreeze: () => frozen(false),
    rollback,
    reset,
  }

  function obey(command: ModelCommand): Promise<string> {
    return inTurn(async () => {
      const answer = await verbs[command.verb](command)
      log.warn({ ...command }, `model command done: ${answer}`)
      return answer
    })
  }

  /** Begins the epoch of others; without their model, or with a damaged one, from this node's own. */
  async function follow(mode: Mode, epoch: number, base: Buffer | undefined): Promise<void> {
    log.warn({ mode, epoch, base: base !== undefined }, 'model rolled back with the other nodes')
    try {
      if (base !== undefined) return models.begin(mode, epoch, base)
    } catch (error) {
      models.counts.refused++
      log.error({ mode, epoch, err: (error as Error).message }, 'model of another node refused')
    }
    models.begin(mode, epoch, await models.packed(mode))
  }

  async function adopt(told: Control, bases: Bases): Promise<void> {
    if (sameControl(joinControl(control, told), control)) return
    for (const mode of modes) {
      const epoch = told.epochs[mode]
      if (epoch <= models.of(mode).epoch) continue
      await follow(mode, epoch, bases[mode])
      await models.save(mode)
    }
    await say(told)
  }

  const timers = [
    setInterval(() => {
      for (const mode of modes) models.of(mode).learner.advance(now())
    }, options.advanceEvery ?? 50),
    setInterval(() => void save(), options.snapshotEvery ?? 300_000),
  ]
  for (const timer of timers) timer.unref()
  const watching = dir === null ? null : watchCommands(dir, obey, log, options.commandsEvery)

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
      await watching?.close()
      await saveLast()
    },
    obey,
    adopt: (told, bases) => inTurn(() => adopt(told, bases)),
    base: (mode) => inTurn(() => models.packed(mode)),
  }
}

function takeMark(dir: string): boolean {
  const mark = join(dir, orderMark)
  const clean = existsSync(mark)
  rmSync(mark, { force: true })
  return clean
}

function restoredControl(dir: string | null, log: KeeperLog): Control {
  const read = dir === null ? null : readControl(dir)
  if (read === undefined)
    log.error({ file: controlFile }, 'what was said of the models cannot be read, it is forgotten')
  return read ?? startControl()
}
