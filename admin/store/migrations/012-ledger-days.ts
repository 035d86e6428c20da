import { sql } from 'kysely'
import { day } from '../hour.ts'
import type { Migration } from './migration.ts'

/** Days after the migration in which a version that does not know the partitions may still write wins. */
const rollingUpdate = 7

/**
 * PostgreSQL: the ledger is partitioned by the day of the decision, so that retention drops days. The table `ledger`
 * becomes the first partition and keeps its name, rows and key: a version before still writes to it during a rolling
 * update, with day 0. Later changes of columns alter `ledger_days`, not `ledger`.
 */
export const ledgerDays: Migration = {
  id: '012-ledger-days',
  async up(db, postgres, now) {
    if (!postgres) return
    const first = Math.floor(now / day) + rollingUpdate
    // a constant default adds the column without rewriting the rows
    await sql`alter table ledger add column day integer not null default 0`.execute(db)
    await sql`create table ledger_days (like ledger including defaults) partition by range (day)`.execute(
      db,
    )
    await sql`alter table ledger_days attach partition ledger
      for values from (minvalue) to (${sql.lit(first)})`.execute(db)
  },
}
