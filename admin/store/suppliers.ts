/** Seats, data centers and holds. Those of a supplier are changed under its lock. */
import type { Kysely, Transaction } from 'kysely'
import type { DataCenter, Seat } from '../management/schema.ts'
import type { Store } from './index.ts'
import type { Tables } from './tables.ts'

export interface SupplierRows {
  revision: number
  seats: Seat[]
  datacenters: DataCenter[]
}

export interface AuditEntry {
  who: string
  account: string
  supplier: string
  action: string
  before: unknown
  after: unknown
  requestId: string
}

/** Up to this many ids are listed in the query; beyond, all rows are read. */
const mostNamed = 500

/** The rows of several suppliers in the order of `ids`, by three queries. */
async function readRows(db: Kysely<Tables>, ids: readonly string[]): Promise<SupplierRows[]> {
  const few = ids.length <= mostNamed
  const revisions = await db
    .selectFrom('suppliers')
    .selectAll()
    .$if(few, (query) => query.where('id', 'in', ids))
    .execute()
  const seats = await db
    .selectFrom('seats')
    .selectAll()
    .$if(few, (query) => query.where('supplier', 'in', ids))
    .orderBy('position')
    .execute()
  const datacenters = await db
    .selectFrom('datacenters')
    .selectAll()
    .$if(few, (query) => query.where('supplier', 'in', ids))
    .orderBy('position')
    .execute()
  const found = new Map<string, SupplierRows>()
  for (const id of ids) found.set(id, { revision: 0, seats: [], datacenters: [] })
  for (const { id, revision } of revisions) {
    const rows = found.get(id)
    if (rows !== undefined) rows.revision = Number(revision)
  }
  for (const { supplier, name, name_external, is_active, qps } of seats)
    found.get(supplier)?.seats.push({
      name,
      name_external,
      is_active: is_active === 1,
      qps: JSON.parse(qps) as Seat['qps'],
    })
  for (const { supplier, location, client_qps, is_active } of datacenters)
    found.get(supplier)?.datacenters.push({
      location,
      client_qps: client_qps === null ? null : Number(client_qps),
      is_active: is_active === 1,
    })
  return ids.map((id) => found.get(id)!)
}

/** Reads in one snapshot, so that an ETag matches its rows. */
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
  for (const [position, seat] of after.seats.entries()) {
    const row = {
      supplier,
      name: seat.name,
      name_external: seat.name_external,
      is_active: seat.is_active ? 1 : 0,
      qps: JSON.stringify(seat.qps),
      position,
    }
    if (position >= before.seats.length) await trx.insertInto('seats').values(row).execute()
    else if (before.seats[position]!.is_active !== seat.is_active)
      await trx
        .updateTable('seats')
        .set({ is_active: row.is_active })
        .where('supplier', '=', supplier)
        .where('name', '=', seat.name)
        .execute()
  }
  for (const [position, center] of after.datacenters.entries()) {
    const row = {
      supplier,
      location: center.location,
      client_qps: center.client_qps,
      is_active: center.is_active ? 1 : 0,
      position,
    }
    if (position >= before.datacenters.length)
      await trx.insertInto('datacenters').values(row).execute()
    else
      await trx
        .updateTable('datacenters')
        .set({ client_qps: row.client_qps, is_active: row.is_active })
        .where('supplier', '=', supplier)
        .where('location', '=', center.location)
        .execute()
  }
}

export async function audit(
  trx: Transaction<Tables>,
  at: number,
  entry: AuditEntry,
): Promise<void> {
  await trx
    .insertInto('audit')
    .values({
      at,
      who: entry.who,
      account: entry.account,
      supplier: entry.supplier,
      action: entry.action,
      before: JSON.stringify(entry.before),
      after: JSON.stringify(entry.after),
      request_id: entry.requestId,
    })
    .execute()
}

/**
 * Reads the rows, calls `change` with them and writes the result, in one transaction under the lock of the supplier.
 * Concurrent calls wait. If `change` throws, nothing is changed.
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
    await trx
      .insertInto('suppliers')
      .values({ id: supplier, revision: 0 })
      .onConflict((conflict) =>
        conflict.column('id').doUpdateSet(({ ref }) => ({ revision: ref('suppliers.revision') })),
      )
      .execute()
    const [before] = (await readRows(trx, [supplier])) as [SupplierRows]
    const wanted = change(before)
    if (wanted === null) return before
    const after = { ...wanted.after, revision: before.revision + 1 }
    await writeSupplier(trx, supplier, before, after)
    await trx
      .updateTable('suppliers')
      .set({ revision: after.revision })
      .where('id', '=', supplier)
      .execute()
    await audit(trx, now, wanted.entry)
    await store.bump(trx)
    return after
  })
}

export async function readHolds(db: Kysely<Tables>): Promise<Set<string>> {
  const rows = await db.selectFrom('holds').select('supplier').where('hold', '=', 1).execute()
  return new Set(rows.map(({ supplier }) => supplier))
}

/** Does nothing, without an audit entry, if the hold has the requested state. */
export async function setHold(
  store: Store,
  now: number,
  hold: boolean,
  entry: Omit<AuditEntry, 'before' | 'after'>,
): Promise<void> {
  const { supplier } = entry
  await store.db.transaction().execute(async (trx) => {
    // locks the row, so that a concurrent call sees the result of this one
    await trx
      .insertInto('holds')
      .values({ supplier, hold: 0 })
      .onConflict((conflict) =>
        conflict.column('supplier').doUpdateSet(({ ref }) => ({ hold: ref('holds.hold') })),
      )
      .execute()
    const before = (await readHolds(trx)).has(supplier)
    if (before === hold) return
    await trx
      .updateTable('holds')
      .set({ hold: hold ? 1 : 0 })
      .where('supplier', '=', supplier)
      .execute()
    await audit(trx, now, { ...entry, before, after: hold })
    await store.bump(trx)
  })
}
