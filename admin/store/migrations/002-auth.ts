import type { Migration } from './migration.ts'

/** Users of the embedded token endpoint, hashes of its refresh tokens, and its signing keys. */
export const auth: Migration = {
  id: '002-auth',
  async up(db) {
    await db.schema
      .createTable('users')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('hash', 'text', (column) => column.notNull())
      .addColumn('roles', 'text', (column) => column.notNull())
      .addColumn('account', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('refresh_tokens')
      .addColumn('hash', 'text', (column) => column.primaryKey())
      .addColumn('family', 'text', (column) => column.notNull())
      .addColumn('user_name', 'text', (column) => column.notNull())
      .addColumn('scope', 'text', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .addColumn('used', 'integer', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('refresh_family').on('refresh_tokens').columns(['family']).execute()
    await db.schema
      .createTable('signing_keys')
      .addColumn('kid', 'text', (column) => column.primaryKey())
      .addColumn('private_jwk', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .execute()
  },
}
