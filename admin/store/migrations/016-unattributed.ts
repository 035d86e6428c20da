/** What notices of unattributed wins said, by which their wins are looked up again. */
import { sql } from 'kysely'
import type { Migration } from './migration.ts'

export const unattributed: Migration = {
  id: '016-unattributed',
  async up(db, postgres) {
    const index = (table: string) =>
      sql`create index on ${sql.table(table)} (reason, at) where status = 'unattributed'`.execute(
        db,
      )
    if (!postgres) {
      await sql`alter table ledger add column notice text`.execute(db)
      await sql`create index ledger_unattributed on ledger (reason, at)
        where status = 'unattributed'`.execute(db)
      return
    }
    await sql`alter table ledger_days add column notice text`.execute(db)
    // each partition has the indexes of the first; the partitioned table has none of its own
    const { rows } = await sql<{ name: string }>`select c.relname as name
      from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
      where i.inhparent = 'ledger_days'::regclass`.execute(db)
    for (const { name } of rows) await index(name)
  },
}
