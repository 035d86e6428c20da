/** Bids decided reach the store whatever suppliers and publishers send, on both databases. */
import { createRollup } from '../../../admin/store/rollup.ts'
import { decided, onBoth, recordingLog, storeAt } from '../../support/store.ts'

const now = 1_790_000_000_000

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => now, log })
  const rollup = createRollup(store, log)
  t.teardown(() => rollup.close())
  const decide = (over: Parameters<typeof decided>[0]) => {
    const record = decided(over)
    rollup.decided(record, Number(record.inBa), Number(record.outBa))
  }
  const edge = `1${'0'.repeat(308)}`
  for (let round = 0; round < 3; round++) {
    for (const over of [
      { publisher: 'a\0b' },
      { domain: '\ud800' },
      { inBa: edge, outBa: edge },
      { publisher: 'x y', domain: 'z' },
      { publisher: 'x', domain: 'y z' },
    ])
      decide(over)
    await rollup.flush()
  }
  t.same(warnings, [])
  if (store.postgres) {
    decide({ supplier: 'no\0supplier' })
    decide({ supplier: 'zeta' })
    await rollup.flush()
    t.same(
      warnings,
      ['decided bids were rejected by the database'],
      'what cannot be kept holds up no other',
    )
    const { bids } = await store.db
      .selectFrom('decided')
      .select('bids')
      .where('supplier', '=', 'zeta')
      .executeTakeFirstOrThrow()
    t.equal(Number(bids), 1)
  }
  const rows = await store.db
    .selectFrom('decided')
    .select(['publisher', 'domain', 'bids', 'in_sum'])
    .where('supplier', '=', 'acme')
    .orderBy('publisher')
    .orderBy('domain')
    .execute()
  t.same(
    rows.map(({ publisher, domain, bids, in_sum }) => [publisher, domain, Number(bids), in_sum]),
    [
      ['a\uFFFDb', 'd', 3, 6],
      ['p', 'd', 3, 0],
      ['p', '\uFFFD', 3, 6],
      ['x', 'y z', 3, 6],
      ['x y', 'z', 3, 6],
    ],
  )
})
