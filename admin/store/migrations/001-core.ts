import type { Migration } from './migration.ts'

export const core: Migration = {
  id: '001-core',
  async up(db, postgres) {
    const money = postgres ? 'numeric' : 'text'
    await db.schema
      .createTable('revision')
      .addColumn('one', 'integer', (column) => column.primaryKey())
      .addColumn('n', 'bigint', (column) => column.notNull())
      .execute()
    await db.insertInto('revision').values({ one: 1, n: 1 }).execute()
    await db.schema
      .createTable('suppliers')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('revision', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('seats')
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('name_external', 'text', (column) => column.notNull())
      .addColumn('is_active', 'integer', (column) => column.notNull())
      .addColumn('qps', 'text', (column) => column.notNull())
      .addColumn('position', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('seats_key', ['supplier', 'name'])
      .execute()
    await db.schema
      .createTable('datacenters')
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('location', 'text', (column) => column.notNull())
      .addColumn('client_qps', 'bigint')
      .addColumn('is_active', 'integer', (column) => column.notNull())
      .addColumn('position', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('datacenters_key', ['supplier', 'location'])
      .execute()
    await db.schema
      .createTable('holds')
      .addColumn('supplier', 'text', (column) => column.primaryKey())
      .addColumn('hold', 'integer', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('audit')
      .addColumn('id', postgres ? 'bigserial' : 'integer', (column) =>
        postgres ? column.primaryKey() : column.primaryKey().autoIncrement(),
      )
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('who', 'text', (column) => column.notNull())
      .addColumn('account', 'text', (column) => column.notNull())
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('action', 'text', (column) => column.notNull())
      .addColumn('before', 'text')
      .addColumn('after', 'text')
      .addColumn('request_id', 'text', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('ledger')
      .addColumn('decision', 'text', (column) => column.notNull())
      .addColumn('event', 'text', (column) => column.notNull())
      .addColumn('bid_id', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('by', 'text')
      .addColumn('supplier', 'text')
      .addColumn('mode', 'text')
      .addColumn('arm', 'text')
      .addColumn('publisher', 'text')
      .addColumn('domain', 'text')
      .addColumn('in_ba', money)
      .addColumn('out_ba', money)
      .addColumn('cleared', money, (column) => column.notNull())
      .addColumn('price_dsp', money)
      .addColumn('currency', 'text')
      .addColumn('margin', money)
      .addColumn('late', 'integer', (column) => column.notNull())
      .addColumn('over', 'integer', (column) => column.notNull())
      .addColumn('reason', 'text')
      .addColumn('decided_at', 'bigint')
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('ledger_key', ['decision', 'event'])
      .execute()
    await db.schema
      .createIndex('ledger_bid')
      .on('ledger')
      .columns(['bid_id', 'event', 'at'])
      .execute()
    await db.schema.createIndex('ledger_at').on('ledger').columns(['at']).execute()
    await db.schema
      .createTable('decided')
      .addColumn('hour', 'bigint', (column) => column.notNull())
      .addColumn('supplier', 'text', (column) => column.notNull())
      .addColumn('mode', 'text', (column) => column.notNull())
      .addColumn('arm', 'text', (column) => column.notNull())
      .addColumn('publisher', 'text', (column) => column.notNull())
      .addColumn('domain', 'text', (column) => column.notNull())
      .addColumn('bids', 'bigint', (column) => column.notNull())
      .addColumn('in_sum', 'double precision', (column) => column.notNull())
      .addColumn('out_sum', 'double precision', (column) => column.notNull())
      .addPrimaryKeyConstraint('decided_key', [
        'hour',
        'supplier',
        'mode',
        'arm',
        'publisher',
        'domain',
      ])
      .execute()
  },
}
