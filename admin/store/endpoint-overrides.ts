/** What operators have decided of endpoints, until a time. Expired rows are deleted at the next change. */
import type { Kysely } from 'kysely'
import { audit, type Change } from './audit.ts'
import type { Store } from './index.ts'
import type { Tables } from './tables.ts'

/** `out`: the endpoint gets no requests. `in`: it gets requests whatever its state. */
export interface EndpointOverride {
  supplier: string
  /** Origin and path. */
  endpoint: string
  state: 'out' | 'in'
  /** Milliseconds since the epoch. */
  until: number
  who: string
}

/**
 * The overrides of endpoints that hold.
 *
 * @param now milliseconds since the epoch
 */
export async function readOverrides(db: Kysely<Tables>, now: number): Promise<EndpointOverride[]> {
  const rows = await db
    .selectFrom('endpoint_overrides')
    .selectAll()
    .where('until', '>', now)
    .execute()
  return rows.map(({ until, ...row }) => ({ ...row, until: Number(until) }))
}

/**
 * Writes what `decide` makes of the overrides of a supplier, under a lock. `decide` throws to refuse.
 *
 * @param state null: the override ends
 */
export async function setOverride(
  store: Store,
  now: number,
  change: Change,
  endpoint: string,
  wanted: { state: EndpointOverride['state']; until: number } | null,
  decide: (current: readonly EndpointOverride[]) => void,
): Promise<void> {
  const { supplier, who } = change
  await store.db.transaction().execute(async (trx) => {
    // Changes of the directory wait for each other at this row.
    await store.bump(trx)
    await trx.deleteFrom('endpoint_overrides').where('until', '<=', now).execute()
    const rows = (await readOverrides(trx, now)).filter((row) => row.supplier === supplier)
    decide(rows)
    const before = rows.find((row) => row.endpoint === endpoint) ?? null
    if (before === null && wanted === null) return
    await trx
      .deleteFrom('endpoint_overrides')
      .where('supplier', '=', supplier)
      .where('endpoint', '=', endpoint)
      .execute()
    if (wanted !== null)
      await trx
        .insertInto('endpoint_overrides')
        .values({ supplier, endpoint, who, ...wanted })
        .execute()
    const shown = (row: { state: string; until: number } | null) =>
      row === null ? null : { endpoint, state: row.state, until: new Date(row.until).toISOString() }
    await audit(trx, now, { ...change, before: shown(before), after: shown(wanted) })
  })
}
