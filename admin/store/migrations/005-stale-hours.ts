import type { Migration } from './migration.ts'

/** Hours to be summed again: rows of the ledger change if a win is voided or attributed late. */
export const staleHours: Migration = {
  id: '005-stale-hours',
  async up(db) {
    await db.schema
      .createTable('stale_hours')
      .addColumn('hour', 'bigint', (column) => column.primaryKey())
      .addColumn('changes', 'bigint', (column) => column.notNull())
      .execute()
  },
}
