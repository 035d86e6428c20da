import type { Migration } from './migration.ts'

/** Adds disabled users, the last log-in, an index of refresh tokens by user, and the time of log-in of a session. */
export const userStates: Migration = {
  id: '006-user-states',
  async up(db) {
    await db.schema
      .alterTable('users')
      .addColumn('disabled', 'integer', (column) => column.notNull().defaultTo(0))
      .execute()
    await db.schema.alterTable('users').addColumn('last_login', 'bigint').execute()
    await db.schema.alterTable('refresh_tokens').addColumn('auth_time', 'bigint').execute()
    await db.schema
      .createIndex('refresh_user')
      .on('refresh_tokens')
      .columns(['user_name'])
      .execute()
  },
}
