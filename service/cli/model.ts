/** `bidweir model list|freeze|unfreeze|rollback [ID]|reset --supplier SSP`: the same changes as the API makes (CONTRACT 8). */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import type { Store } from '../../admin/store/index.ts'
import {
  forgetSupplier,
  readModelControl,
  rollBack,
  setFrozen,
} from '../../admin/store/model-control.ts'
import { modes } from '../../opd/shared/arms.ts'
import type { ModelControl } from '../../opd/state/model-control.ts'
import { writeModelFile } from '../../opd/state/model-file.ts'
import {
  newestSnapshots,
  type SnapshotRow,
  snapshotCatalog,
} from '../../opd/state/snapshot-catalog.ts'
import { writeDurably } from '../../opd/state/snapshots.ts'
import type { Config } from '../config/schema.ts'
import { loadOrCreateKeys } from '../context-keys.ts'
import { modelSecrets, modelsDirOf } from '../models.ts'
import { type CommandStreams, configOf, withStore } from './command.ts'

interface Models {
  store: Store
  /** Where the snapshots of this node are. */
  dir: string
  config: Config
}

/** A model command: returns what it prints, or rejects with a sentence for stderr. */
export type ModelCommand = (models: Models) => Promise<string>

const iso = (time: number | null) => (time === null ? null : new Date(time).toISOString())

function tableOf(
  rows: readonly SnapshotRow[],
  { frozen, rolledBackAt, resets }: ModelControl,
): string {
  const snapshotLines = rows.map(({ id, at: time, bytes, newest }) =>
    [id.padEnd(18), time, `${Math.ceil(bytes / 1024)} KiB`.padStart(10), newest ? '  newest' : '']
      .join('  ')
      .trimEnd(),
  )
  const stateLines = [
    stateText(frozen),
    ...modes
      .filter((mode) => rolledBackAt[mode] !== null)
      .map((mode) => `${mode} rolled back ${iso(rolledBackAt[mode])}`),
    ...Object.entries(resets).map(([id, times]) => `${id} reset ${times} times`),
  ]
  return `${[...snapshotLines, ...stateLines].join('\n')}\n`
}

/** The entry of the audit trail. */
const entryOf = (action: string, supplier = '*') => ({
  who: 'bidweir model',
  account: '*',
  supplier,
  action,
  requestId: randomUUID(),
})

export const list =
  (json: boolean): ModelCommand =>
  async ({ dir, store }) => {
    const rows = await snapshotCatalog(dir).list()
    const control = await readModelControl(store.db)
    if (!json) return tableOf(rows, control)
    const { frozen, rolledBackAt, resets } = control
    const rolled_back = { revenue: iso(rolledBackAt.revenue), margin: iso(rolledBackAt.margin) }
    return `${JSON.stringify({ frozen, rolled_back, resets, snapshots: rows }, null, 2)}\n`
  }

const stateText = (frozen: boolean) => (frozen ? 'frozen: decides, does not learn' : 'learning')

export const freeze =
  (frozen: boolean): ModelCommand =>
  async ({ store }) => {
    await setFrozen(store, Date.now(), frozen, entryOf(frozen ? 'freeze' : 'unfreeze'))
    return `${stateText(frozen)}\n`
  }

export const rollback =
  (id: string | undefined): ModelCommand =>
  async ({ dir, store }) => {
    // A relative stateDir resolves to an empty folder if the command runs in another directory.
    if (!existsSync(dir)) throw new Error(`no models in ${resolve(dir)}: run it where a node runs`)
    const loaded = await snapshotCatalog(dir).loadSnapshots(id)
    await rollBack(store, Date.now(), loaded, entryOf('rollback'))
    return `rolled back to ${loaded.map(({ snapshot }) => snapshot).join(' and ')}\n`
  }

export const reset =
  (supplier: string): ModelCommand =>
  async ({ config, store }) => {
    if (!config.suppliers.some(({ id }) => id === supplier))
      throw new Error(`no supplier ${supplier}`)
    await forgetSupplier(store, Date.now(), entryOf('reset', supplier))
    return `the models forget ${supplier}\n`
  }

/** Nodes follow within two seconds. A node that is not running follows when it starts. */
export async function withModels(
  file: string | undefined,
  streams: CommandStreams,
  command: ModelCommand,
): Promise<void> {
  const config = await configOf(file, streams)
  return withStore(config, streams, (store) => command({ store, dir: modelsDirOf(config), config }))
}

/** Writes the newest snapshots of this node to a signed file, for nodes with `models.from`. */
export const exportTo =
  (file: string): ModelCommand =>
  async ({ dir, store, config }) => {
    const { resets } = await readModelControl(store.db)
    const models = await newestSnapshots(dir)
    if (models.length === 0)
      throw new Error(
        `no snapshot in ${resolve(dir)}: a node writes one every five minutes, and when it ends`,
      )
    const keys = config.opd.keys ?? loadOrCreateKeys(config.stateDir)
    const [secret] = modelSecrets(config, keys)
    const newest = Math.max(...models.map((model) => model.at))
    const bytes = writeModelFile({ at: newest, resets, models }, secret!)
    await writeDurably(dirname(resolve(file)), basename(file), bytes)
    const names = models.map(({ mode, version }) => `${mode}-${version}`)
    const kib = Math.ceil(bytes.length / 1024)
    return `${resolve(file)}: ${names.join(' and ')} of ${iso(newest)}, ${kib} KiB\n`
  }
