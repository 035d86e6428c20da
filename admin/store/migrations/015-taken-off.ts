import type { Migration } from './migration.ts'

export const takenOff: Migration = {
  id: '015-taken-off',
  async up(db) {
    await db.schema
      .createTable('taken_off')
      .addColumn('day', 'integer', (column) => column.notNull())
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('amount', 'double precision', (column) => column.notNull())
      .addPrimaryKeyConstraint('taken_off_key', ['day', 'supplier'])
      .execute()
  },
}
