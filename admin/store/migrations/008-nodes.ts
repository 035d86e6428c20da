import type { Migration } from './migration.ts'

export const nodes: Migration = {
  id: '008-nodes',
  async up(db) {
    await db.schema
      .createTable('nodes')
      .addColumn('location', 'text', (column) => column.primaryKey())
      .addColumn('live', 'integer', (column) => column.notNull())
      .execute()
  },
}
