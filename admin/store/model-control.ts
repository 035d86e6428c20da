/**
 * Operator commands for the models: freeze, rollback, reset. Each change is one transaction with its audit entry.
 * Counters in the rows order the changes, not clocks.
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Mode } from '../../opd/shared/arms.ts'
import type { ModelControl, ModelControlSource } from '../../opd/state/model-control.ts'
import { audit, type Change } from './audit.ts'
import type { Store } from './index.ts'
import type { Tables } from './tables.ts'

interface Rollback {
  mode: Mode
  /** For the audit trail, such as `revenue-12`. */
  snapshot: string
  /** The packed model at the start of the new epoch. */
  base: Uint8Array
}

type ModelRow = Pick<Tables['models'], 'epoch' | 'rolled_back_at'>

/**
 * The state that all commands to the models have led to.
 *
 * @param db of all nodes
 */
export async function readModelControl(db: Kysely<Tables>): Promise<ModelControl> {
  const rows = await db.selectFrom('models').select(['mode', 'epoch', 'rolled_back_at']).execute()
  const { frozen } = await db
    .selectFrom('model_learning')
    .select('frozen')
    .executeTakeFirstOrThrow()
  const resets = await db.selectFrom('model_resets').selectAll().execute()
  const perMode = <T>(value: (row: ModelRow) => T) =>
    Object.fromEntries(rows.map((row) => [row.mode, value(row)])) as Record<Mode, T>
  return {
    frozen: frozen === 1,
    epochs: perMode(({ epoch }) => epoch),
    rolledBackAt: perMode((row) => row.rolled_back_at),
    resets: Object.fromEntries(resets.map(({ supplier, times }) => [supplier, times])),
  }
}

/** Runs a change under the lock of the row that all of these changes update first. */
function changing<T>(store: Store, work: (trx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return store.db.transaction().execute(async (trx) => {
    await sql`update model_learning set frozen = frozen`.execute(trx)
    return work(trx)
  })
}

/**
 * Does nothing, without an audit entry, if the state is the requested one already.
 *
 * @param now milliseconds since the epoch, by the clock of the store
 */
export function setFrozen(
  store: Store,
  now: number,
  frozen: boolean,
  change: Change,
): Promise<void> {
  return changing(store, async (trx) => {
    const before = (await readModelControl(trx)).frozen
    if (before === frozen) return
    await sql`update model_learning set frozen = ${frozen ? 1 : 0}`.execute(trx)
    await audit(trx, now, { ...change, before, after: frozen })
    await store.bump(trx)
  })
}

/**
 * Starts a new epoch of each mode with the given model.
 *
 * @param now milliseconds since the epoch, by the clock of the store
 * @param rollbacks at most one for each mode
 */
export function rollBack(
  store: Store,
  now: number,
  rollbacks: readonly Rollback[],
  change: Change,
): Promise<void> {
  return changing(store, async (trx) => {
    const { epochs } = await readModelControl(trx)
    for (const { mode, base } of rollbacks)
      await trx
        .updateTable('models')
        .set({ epoch: epochs[mode] + 1, rolled_back_at: now, base })
        .where('mode', '=', mode)
        .execute()
    const after = rollbacks.map(({ mode, snapshot }) => ({ epoch: epochs[mode] + 1, snapshot }))
    const before = rollbacks.map(({ mode }) => ({ epoch: epochs[mode] }))
    await audit(trx, now, { ...change, before, after })
    await store.bump(trx)
  })
}

/**
 * Makes the models forget the supplier of `change`.
 *
 * @param now milliseconds since 1970
 */
export function forgetSupplier(store: Store, now: number, change: Change): Promise<void> {
  const { supplier } = change
  return changing(store, async (trx) => {
    const { rows } = await sql<{ times: number }>`
      insert into model_resets (supplier, times) values (${supplier}, 1)
      on conflict (supplier) do update set times = model_resets.times + 1
      returning times`.execute(trx)
    const { times } = rows[0]!
    await audit(trx, now, { ...change, before: times - 1, after: times })
    await store.bump(trx)
  })
}

/**
 * The commands to the models, as the model manager reads them.
 *
 * @param store of all nodes
 */
export function modelControlSource(store: Store): ModelControlSource {
  const { db } = store
  return {
    read: () => readModelControl(db),
    async base(mode) {
      const row = await db
        .selectFrom('models')
        .select('base')
        .where('mode', '=', mode)
        .executeTakeFirst()
      return row?.base ?? null
    },
    async raise(mode, epoch, base) {
      await changing(store, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable('models')
          .set({ epoch, base })
          .where('mode', '=', mode)
          .where('epoch', '<', epoch)
          .executeTakeFirst()
        if (numUpdatedRows > 0n) await store.bump(trx)
      })
    },
  }
}
