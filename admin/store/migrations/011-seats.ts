import type { CreateTableBuilder, Kysely } from 'kysely'
import type { Tables } from '../tables.ts'
import type { Migration } from './migration.ts'

type Columns = readonly (readonly [
  name: string,
  type: 'text' | 'bigint' | 'numeric' | 'double precision',
])[]

const texts = (...names: string[]): Columns => names.map((name) => [name, 'text'])

async function create(
  db: Kysely<Tables>,
  table: 'decided_seats' | 'ledger_hour_seats',
  key: Columns,
  sums: Columns,
): Promise<void> {
  await [...key, ...sums]
    .reduce<CreateTableBuilder<string, string>>(
      (builder, [name, type]) => builder.addColumn(name, type, (column) => column.notNull()),
      db.schema.createTable(table),
    )
    .addPrimaryKeyConstraint(
      `${table}_key`,
      key.map(([name]) => name),
    )
    .execute()
}

/**
 * The seat of a win, and the hourly sums of each seat. They have tables of their own: a version before writes those of
 * all seats, with their keys, during a rolling update.
 */
export const seats: Migration = {
  id: '011-seats',
  async up(db, postgres) {
    const money = postgres ? 'numeric' : 'text'
    await db.schema.alterTable('ledger').addColumn('seat', 'text').execute()
    await create(
      db,
      'decided_seats',
      [['hour', 'bigint'], ...texts('supplier', 'mode', 'arm', 'publisher', 'domain', 'seat')],
      [
        ['bids', 'bigint'],
        ['in_sum', 'double precision'],
        ['out_sum', 'double precision'],
      ],
    )
    await create(
      db,
      'ledger_hour_seats',
      [
        ['hour', 'bigint'],
        ...texts('supplier', 'event', 'status', 'mode', 'arm', 'publisher', 'domain'),
        ...texts('currency', 'seat'),
      ],
      [
        ...(['n', 'bids', 'priced', 'late', 'over_count'] as const).map(
          (name) => [name, 'bigint'] as const,
        ),
        ...(['cleared', 'out_ba', 'margin'] as const).map((name) => [name, money] as const),
        ...(['margins', 'squares'] as const).map((name) => [name, 'double precision'] as const),
      ],
    )
  },
}
