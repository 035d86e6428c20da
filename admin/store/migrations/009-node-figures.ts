import type { Migration } from './migration.ts'

/** The figures that each node publishes for the console, in parts of bounded size. */
export const nodeFigures: Migration = {
  id: '009-node-figures',
  async up(db) {
    await db.schema
      .createTable('node_figures')
      .addColumn('node', 'text', (column) => column.notNull())
      .addColumn('part', 'integer', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('figures', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('node_figures_key', ['node', 'part'])
      .execute()
  },
}
