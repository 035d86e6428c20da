import type { Migration } from './migration.ts'

export const models: Migration = {
  id: '007-models',
  async up(db, postgres) {
    await db.schema
      .createTable('models')
      .addColumn('mode', 'text', (column) => column.primaryKey())
      .addColumn('epoch', 'bigint', (column) => column.notNull())
      .addColumn('rolled_back_at', 'bigint')
      .addColumn('base', postgres ? 'bytea' : 'blob')
      .execute()
    await db
      .insertInto('models')
      .values([
        { mode: 'revenue', epoch: 0 },
        { mode: 'margin', epoch: 0 },
      ])
      .execute()
    await db.schema
      .createTable('model_learning')
      .addColumn('one', 'integer', (column) => column.primaryKey())
      .addColumn('frozen', 'integer', (column) => column.notNull())
      .execute()
    await db.insertInto('model_learning').values({ one: 1, frozen: 0 }).execute()
    await db.schema
      .createTable('model_resets')
      .addColumn('supplier', 'text', (column) => column.primaryKey())
      .addColumn('times', 'bigint', (column) => column.notNull())
      .execute()
  },
}
