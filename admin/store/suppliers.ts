/** Seats, data centers and holds. Those of a supplier are changed under its lock. */
import { type Kysely, sql, type Transaction } from 'kysely'
import { type AuditEntry, audit, type Change } from './audit.ts'
import type { Store } from './index.ts'
import type { DataCenter, Seat, Tables } from './tables.ts'

export interface SupplierRows {
  revision: number
  seats: Seat[]
  datacenters: DataCenter[]
}

/** Up to this many ids are listed in the query; beyond, all rows are read. */
const mostNamed = 500

/** The rows of several suppliers in the order of `ids`, by three queries. */
async function readRows(db: Kysely<Tables>, ids: readonly string[]): Promise<SupplierRows[]> {
  const among = (column: string) =>
    ids.length <= mostNamed ? sql`where ${sql.ref(column)} in (${sql.join(ids)})` : sql``
  const revisions = await sql<Tables['suppliers']>`
    select * from suppliers ${among('id')}`.execute(db)
  const seats = await sql<Tables['seats']>`
    select * from seats ${among('supplier')} order by position`.execute(db)
  const datacenters = await sql<Tables['datacenters']>`
    select * from datacenters ${among('supplier')} order by position`.execute(db)
  const found = new Map<string, SupplierRows>()
  for (const id of ids) found.set(id, { revision: 0, seats: [], datacenters: [] })
  for (const { id, revision } of revisions.rows) {
    const rows = found.get(id)
    if (rows !== undefined) rows.revision = revision
  }
  for (const { supplier, name, name_external, is_active, qps } of seats.rows)
    found.get(supplier)?.seats.push({
      name,
      name_external,
      is_active: is_active === 1,
      qps: JSON.parse(qps) as Seat['qps'],
    })
  for (const { supplier, location, client_qps, is_active } of datacenters.rows)
    found.get(supplier)?.datacenters.push({ location, client_qps, is_active: is_active === 1 })
  return ids.map((id) => found.get(id)!)
}

/**
 * Reads in one snapshot, so that an ETag matches its rows.
 *
 * @param store of all nodes
 * @param ids unknown ones have no rows
 */
export async function readSuppliers(store: Store, ids: readonly string[]): Promise<SupplierRows[]> {
  if (ids.length === 0) return []
  return store.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute((trx) => readRows(trx, ids))
}

/** Writes the differences to `before`; rows are never deleted. */
async function writeSupplier(
  trx: Transaction<Tables>,
  supplier: string,
  before: SupplierRows,
  after: SupplierRows,
): Promise<void> {
  const seats = after.seats.flatMap(({ is_active, qps, ...names }, position) =>
    is_active === before.seats[position]?.is_active
      ? []
      : { ...names, supplier, position, qps: JSON.stringify(qps), is_active: is_active ? 1 : 0 },
  )
  if (seats.length > 0)
    await trx
      .insertInto('seats')
      .values(seats)
      .onConflict((conflict) =>
        conflict
          .columns(['supplier', 'name'])
          .doUpdateSet(({ ref }) => ({ is_active: ref('excluded.is_active') })),
      )
      .execute()
  const centers = after.datacenters.flatMap(({ is_active, ...center }, position) => {
    const was = before.datacenters[position]
    if (was?.is_active === is_active && was.client_qps === center.client_qps) return []
    return [{ ...center, supplier, position, is_active: is_active ? 1 : 0 }]
  })
  if (centers.length > 0)
    await trx
      .insertInto('datacenters')
      .values(centers)
      .onConflict((conflict) =>
        conflict.columns(['supplier', 'location']).doUpdateSet(({ ref }) => ({
          client_qps: ref('excluded.client_qps'),
          is_active: ref('excluded.is_active'),
        })),
      )
      .execute()
}

/**
 * Reads the rows, calls `change` with them and writes the result, in one transaction under the lock of the supplier.
 * Concurrent calls wait. If `change` throws, nothing is changed.
 *
 * @param now milliseconds since the epoch, by the clock of the store
 * @param change null: nothing is to be changed
 * @throws what `change` throws, or a StoreError
 */
export async function changeSupplier(
  store: Store,
  supplier: string,
  now: number,
  change: (
    rows: SupplierRows,
  ) => { after: Omit<SupplierRows, 'revision'>; entry: AuditEntry } | null,
): Promise<SupplierRows> {
  return store.db.transaction().execute(async (trx) => {
    // The row lock: other writers of this supplier wait for this upsert until the commit.
    await sql`insert into suppliers (id, revision) values (${supplier}, 0)
      on conflict (id) do update set revision = suppliers.revision`.execute(trx)
    const [before] = (await readRows(trx, [supplier])) as [SupplierRows]
    const wanted = change(before)
    if (wanted === null) return before
    const after = { ...wanted.after, revision: before.revision + 1 }
    await writeSupplier(trx, supplier, before, after)
    const { revision } = after
    await sql`update suppliers set revision = ${revision} where id = ${supplier}`.execute(trx)
    await audit(trx, now, wanted.entry)
    await store.bump(trx)
    return after
  })
}

/**
 * The suppliers on hold; `*`: all of them.
 *
 * @param db of all nodes
 */
export async function readHolds(db: Kysely<Tables>): Promise<Set<string>> {
  const rows = await db.selectFrom('holds').select('supplier').where('hold', '=', 1).execute()
  return new Set(rows.map(({ supplier }) => supplier))
}

/**
 * Does nothing, without an audit entry, if the hold has the requested state.
 *
 * @param now milliseconds since the epoch, by the clock of the store
 * @param change its supplier `*`: the hold of all suppliers
 */
export async function setHold(
  store: Store,
  now: number,
  hold: boolean,
  change: Change,
): Promise<void> {
  const { supplier } = change
  await store.db.transaction().execute(async (trx) => {
    // locks the row, so that a concurrent call sees the result of this one
    const { rows } = await sql<{ hold: number }>`
      insert into holds (supplier, hold) values (${supplier}, 0)
      on conflict (supplier) do update set hold = holds.hold returning hold`.execute(trx)
    const before = rows[0]!.hold === 1
    if (before === hold) return
    await sql`update holds set hold = ${hold ? 1 : 0} where supplier = ${supplier}`.execute(trx)
    await audit(trx, now, { ...change, before, after: hold })
    await store.bump(trx)
  })
}
