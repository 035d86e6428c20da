import type { Migration } from './migration.ts'

/** Bids and wins of the arms that are compared, by day: kept wins and spend survive a restart. */
export const armSums: Migration = {
  id: '013-arm-sums',
  async up(db) {
    await db.schema
      .createTable('arm_sums')
      .addColumn('day', 'bigint', (column) => column.notNull())
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('mode', 'text', (column) => column.notNull())
      .addColumn('arm', 'text', (column) => column.notNull())
      .addColumn('bids', 'bigint', (column) => column.notNull())
      .addColumn('wins', 'bigint', (column) => column.notNull())
      .addColumn('in', 'double precision', (column) => column.notNull())
      .addColumn('cleared', 'double precision', (column) => column.notNull())
      .addColumn('margin', 'double precision', (column) => column.notNull())
      .addColumn('margin_squares', 'double precision', (column) => column.notNull())
      .addColumn('spend', 'double precision', (column) => column.notNull())
      .addColumn('spend_squares', 'double precision', (column) => column.notNull())
      .addPrimaryKeyConstraint('arm_sums_key', ['day', 'supplier', 'mode', 'arm'])
      .execute()
  },
}
