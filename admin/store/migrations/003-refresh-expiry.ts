import type { Migration } from './migration.ts'

/** A client that refreshes every five minutes leaves 8,600 tokens in a month; this index finds expired ones. */
export const refreshExpiry: Migration = {
  id: '003-refresh-expiry',
  async up(db) {
    await db.schema
      .createIndex('refresh_expiry')
      .on('refresh_tokens')
      .columns(['expires_at'])
      .execute()
  },
}
