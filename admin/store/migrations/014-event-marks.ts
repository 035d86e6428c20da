import type { Migration } from './migration.ts'

export const eventMarks: Migration = {
  id: '014-event-marks',
  async up(db) {
    await db.schema
      .createTable('event_marks')
      .addColumn('node', 'text', (column) => column.primaryKey())
      .addColumn('sent', 'bigint', (column) => column.notNull())
      .addColumn('alive', 'bigint', (column) => column.notNull())
      .execute()
  },
}
