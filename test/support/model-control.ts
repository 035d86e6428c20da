/** An operator's hands in tests: changes in a real store, and nodes that follow them. */
import type { Test } from 'tap'
import {
  forgetSupplier,
  modelControlSource,
  rollBack,
  setFrozen,
} from '../../admin/store/model-control.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'
import { snapshotCatalog } from '../../opd/state/snapshot-catalog.ts'
import { type Database, storeAt } from './store.ts'

const entry = { who: 'test', account: '*', supplier: '*', action: 'test', requestId: 'r' }

export type Operator = Awaited<ReturnType<typeof operatorOf>>

/** `validate`: whether bytes are a model; by default the real learner decides. */
export async function operatorOf(
  t: Test,
  validate?: (learned: Uint8Array) => unknown,
  database: Database = { url: 'sqlite::memory:' },
) {
  const store = await storeAt(t, database)
  const source = modelControlSource(store)
  return {
    store,
    source,
    freeze: (frozen: boolean) => setFrozen(store, 1e12, frozen, entry),
    /** To a snapshot of the folder. */
    async rollback(dir: string, id?: string): Promise<string[]> {
      const loaded = await snapshotCatalog(dir, validate).loadSnapshots(id)
      await rollBack(store, 1e12, loaded, entry)
      return loaded.map(({ snapshot }) => snapshot)
    },
    reset: (supplier: string) => forgetSupplier(store, 1e12, { ...entry, supplier }),
    /** As in a new database. */
    async clear() {
      await store.db.updateTable('models').set({ epoch: 0, base: null }).execute()
    },
    execute: (modelManager: ModelManager) => modelManager.execute(source),
  }
}
