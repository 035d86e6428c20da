/** Rows of sums are written together: all of them, or none. */
import { writeSums } from '../../../admin/store/sums.ts'
import { onBoth, recordingLog, storeAt } from '../../support/store.ts'

const target = {
  table: 'decided',
  key: ['hour', 'supplier', 'mode', 'arm', 'via', 'publisher', 'domain'],
  sums: ['bids', 'in_sum', 'out_sum'],
} as const
const row = (supplier: string, bids: number | null) => ({
  ...{ hour: 1_790_000_000_000, supplier, mode: 'revenue', arm: 'treated', via: 'proxy' },
  ...{ publisher: "p'", domain: '', bids, in_sum: 0.1, out_sum: 1e-7 },
})

onBoth(async (t, database) => {
  const { log } = recordingLog()
  const store = await storeAt(t, database, { now: () => 1_790_000_000_000, log })
  const { db } = store
  const write = (how: 'add' | 'replace', rows: readonly object[], by = db) =>
    writeSums(by, how, target, rows)
  const stored = async () => {
    const rows = await db
      .selectFrom('decided')
      .select(['supplier', 'bids', 'in_sum', 'out_sum'])
      .orderBy('supplier')
      .execute()
    return rows.map(({ supplier, bids, in_sum, out_sum }) => [
      supplier,
      Number(bids),
      in_sum,
      out_sum,
    ])
  }
  const bad = [row('b', 5), row('c', null), row('d', 7)]

  await write('add', [row('a', 2), row('b', 3)])
  await t.rejects(write('add', bad))
  t.same(
    await stored(),
    [
      ['a', 2, 0.1, 1e-7],
      ['b', 3, 0.1, 1e-7],
    ],
    'one row that is refused: none is written',
  )

  await t.rejects(
    db.transaction().execute(async (trx) => {
      await write('add', [row('a', 10)], trx)
      await write('add', bad, trx)
    }),
  )
  t.same((await stored())[0], ['a', 2, 0.1, 1e-7], 'nor what the same transaction wrote before')

  await db.transaction().execute(async (trx) => {
    await write('add', [row('a', 1), row('e', 4)], trx)
    await write('replace', [row('b', 9)], trx)
  })
  t.same(
    await stored(),
    [
      ['a', 3, 0.2, 2e-7],
      ['b', 9, 0.1, 1e-7],
      ['e', 4, 0.1, 1e-7],
    ],
    'sums are added to, or replaced',
  )
  if (!store.postgres) {
    const types = await db
      .selectFrom('decided')
      .select(({ fn }) => [
        fn<string>('typeof', ['bids']).as('bids'),
        fn<string>('typeof', ['hour']).as('hour'),
      ])
      .distinct()
      .execute()
    t.same(types, [{ bids: 'integer', hour: 'integer' }], 'whole numbers stay whole')
  }
})
