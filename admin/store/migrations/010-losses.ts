import type { Migration } from './migration.ts'

export const losses: Migration = {
  id: '010-losses',
  async up(db) {
    await db.schema
      .createTable('losses')
      .addColumn('decision', 'text', (column) => column.primaryKey())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('losses_at').on('losses').column('at').execute()
  },
}
