import type { CreateTableBuilder } from 'kysely'
import type { Migration } from './migration.ts'

/** Hourly sums of the ledger, the progress of the roll-up, and duplicates, which the ledger does not store. */
export const hours: Migration = {
  id: '004-hours',
  async up(db, postgres) {
    const money = postgres ? 'numeric' : 'text'
    const names = [
      'supplier',
      'event',
      'status',
      'mode',
      'arm',
      'publisher',
      'domain',
      'currency',
    ] as const
    const columns = [
      ...names.map((name) => [name, 'text'] as const),
      ...(['n', 'bids', 'priced', 'late', 'over_count'] as const).map(
        (name) => [name, 'bigint'] as const,
      ),
      ...(['cleared', 'out_ba', 'margin'] as const).map((name) => [name, money] as const),
      ...(['margins', 'squares'] as const).map((name) => [name, 'double precision'] as const),
    ]
    await columns
      .reduce<CreateTableBuilder<'ledger_hours', string>>(
        (table, [name, type]) => table.addColumn(name, type, (column) => column.notNull()),
        db.schema
          .createTable('ledger_hours')
          .addColumn('hour', 'bigint', (column) => column.notNull()),
      )
      .addPrimaryKeyConstraint('ledger_hours_key', ['hour', ...names])
      .execute()
    await db.schema
      .createTable('rolled')
      .addColumn('one', 'integer', (column) => column.primaryKey())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .addColumn('sealed', 'bigint', (column) => column.notNull())
      .addColumn('lease', 'bigint', (column) => column.notNull())
      .execute()
    await db.insertInto('rolled').values({ one: 1, until: 0, sealed: 0, lease: 0 }).execute()
  },
}
