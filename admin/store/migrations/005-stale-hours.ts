import type { Migration } from './migration.ts'

/** Hours whose sums are to be made again: rows of the ledger change when a win is voided or becomes attributed late. */
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
