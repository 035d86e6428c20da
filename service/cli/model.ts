/** `bidweir model list|freeze|unfreeze|rollback [ID]|reset --supplier SSP`: the same changes as the API makes (CONTRACT 8). */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Store } from '../../admin/store/index.ts'
import {
  forgetSupplier,
  readModelControl,
  rollBack,
  setFrozen,
} from '../../admin/store/model-control.ts'
import { modes } from '../../opd/pricing/arms.ts'
import type { ModelControl } from '../../opd/state/model-control.ts'
import { type SnapshotRow, snapshotCatalog } from '../../opd/state/snapshot-catalog.ts'
import { modelsDirOf } from '../models.ts'
import { type CommandStreams, configOf, withStore } from './command.ts'

type Verb = 'list' | 'freeze' | 'unfreeze' | 'rollback' | 'reset'

interface ModelCommandDeps {
  store: Store
  /** Where the snapshots of this node are. */
  dir: string
  /** Suppliers of the configuration. */
  suppliers: ReadonlySet<string>
  now: () => number
}

export interface ModelArgs {
  verb: Verb
  id?: string | undefined
  supplier?: string | undefined
  json?: boolean
}

const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString())

function tableOf(
  rows: readonly SnapshotRow[],
  { frozen, rolledBackAt, resets }: ModelControl,
): string {
  const snapshotLines = rows.map(({ id, at, bytes, newest }) =>
    [id.padEnd(18), at, `${Math.ceil(bytes / 1024)} KiB`.padStart(10), newest ? '  newest' : '']
      .join('  ')
      .trimEnd(),
  )
  const stateLines = [
    frozen ? 'frozen: decides, does not learn' : 'learning',
    ...modes
      .filter((mode) => rolledBackAt[mode] !== null)
      .map((mode) => `${mode} rolled back ${iso(rolledBackAt[mode])}`),
    ...Object.entries(resets).map(([id, times]) => `${id} reset ${times} times`),
  ]
  return `${[...snapshotLines, ...stateLines].join('\n')}\n`
}

type Handle = (args: ModelArgs, deps: ModelCommandDeps) => Promise<string>

/** The entry of the audit trail. */
const entryOf = (action: Verb, supplier = '*') => ({
  who: 'bidweir model',
  account: '*',
  supplier,
  action,
  requestId: randomUUID(),
})

/** Each resolves with the text for stdout, or throws an `Error` with a sentence for stderr. */
const commands: Readonly<Record<Verb, Handle>> = {
  async list({ json }, { dir, store }) {
    const rows = await snapshotCatalog(dir).list()
    const control = await readModelControl(store.db)
    if (json !== true) return tableOf(rows, control)
    const { frozen, rolledBackAt, resets } = control
    const rolled_back = { revenue: iso(rolledBackAt.revenue), margin: iso(rolledBackAt.margin) }
    return `${JSON.stringify({ frozen, rolled_back, resets, snapshots: rows }, null, 2)}\n`
  },
  async freeze(_args, { store, now }) {
    await setFrozen(store, now(), true, entryOf('freeze'))
    return 'frozen: decides, does not learn\n'
  },
  async unfreeze(_args, { store, now }) {
    await setFrozen(store, now(), false, entryOf('unfreeze'))
    return 'learning\n'
  },
  async rollback({ id }, { dir, store, now }) {
    // A relative stateDir resolves to an empty folder if the command runs in another directory.
    if (!existsSync(dir)) throw new Error(`no models in ${resolve(dir)}: run it where a node runs`)
    const loaded = await snapshotCatalog(dir).load(id)
    await rollBack(store, now(), loaded, entryOf('rollback'))
    return `rolled back to ${loaded.map(({ snapshot }) => snapshot).join(' and ')}\n`
  },
  async reset({ supplier = '' }, { suppliers, store, now }) {
    if (!suppliers.has(supplier)) throw new Error(`no supplier ${supplier}`)
    await forgetSupplier(store, now(), entryOf('reset', supplier))
    return `the models forget ${supplier}\n`
  },
}

/** Nodes follow within two seconds. A node that is not running follows when it starts. */
export async function model(
  file: string | undefined,
  args: ModelArgs,
  streams: CommandStreams,
): Promise<void> {
  const config = await configOf(file, streams)
  const suppliers = new Set(config.suppliers.map(({ id }) => id))
  const dir = modelsDirOf(config)
  return withStore(config, streams, (store) =>
    commands[args.verb](args, { store, dir, suppliers, now: Date.now }),
  )
}
