/** Decided bids are stored whatever texts suppliers and publishers send, on both databases. */
import { hourOf } from '../../../admin/store/hour.ts'
import { createRollup } from '../../../admin/store/rollup.ts'
import { decided, observe } from '../../support/decision-record.ts'
import { onBoth, recordingLog, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const now = 1_790_000_000_000

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => now, log })
  const rollup = createRollup(store, log)
  t.teardown(() => rollup.close())
  const decide = (over: Parameters<typeof decided>[0]) => {
    const record = decided(over)
    observe(rollup.bids, record, Number(record.inBa), Number(record.outBa))
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

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => now, log })
  const rollup = createRollup(store, log)
  const hour = 3_600_000
  const publishers = 1500
  for (let round = 0; round < 2; round++)
    for (const time of [now, now + hour, now - 1, now])
      for (let n = 0; n < publishers; n++) {
        const arm = n % 2 === 0 ? 'treated' : 'holdout'
        const record = decided({
          decidedAt: time,
          publisher: `pub-${n % 750}`,
          domain: `d-${n % 3}`,
          arm,
        })
        observe(rollup.bids, record, 2, 1)
      }
  await rollup.close()
  const { bids, rows, money } = await store.db
    .selectFrom('decided')
    .select(({ fn }) => [
      fn.sum('bids').as('bids'),
      fn.countAll().as('rows'),
      fn.sum('in_sum').as('money'),
    ])
    .executeTakeFirstOrThrow()
  t.same(
    [Number(bids), Number(money)],
    [8 * publishers, 16 * publishers],
    'every bid is counted once, whatever its hour and however many names there are',
  )
  t.equal(Number(rows), new Set([now, now + hour, now - 1].map(hourOf)).size * 750)
  t.same(warnings, [])
})

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => now, log })
  const rollup = createRollup(store, log)
  t.teardown(() => rollup.close())
  const decide = (rows: number) => {
    for (let n = 0; n < rows; n++) {
      const record = decided({ decidedAt: now, supplier: `s-${n % 1000}`, publisher: `p-${n}` })
      observe(rollup.bids, record, 2, 1)
    }
  }
  const stored = async () => {
    const { rows, bids } = await store.db
      .selectFrom('decided')
      .select(({ fn }) => [fn.countAll().as('rows'), fn.sum('bids').as('bids')])
      .executeTakeFirstOrThrow()
    return { rows: Number(rows), bids: Number(bids) }
  }
  decide(20_000)
  let seen = await stored()
  await until(async () => {
    seen = await stored()
    return seen.rows >= 2500
  })
  t.same(seen, { rows: 2500, bids: 2500 }, 'a round writes 2,500 rows')
  await rollup.writeRound()
  // A round that was due meanwhile may have written as many.
  const { rows } = await stored()
  t.ok(rows >= 5000 && rows < 20_000 && rows % 2500 === 0, `${rows}: a round now writes as many`)
  decide(20_000)
  await rollup.flush()
  t.same(await stored(), { rows: 20_000, bids: 40_000 }, 'rows that wait take up later bids')
  decide(100)
  await rollup.writeRound()
  t.same(await stored(), { rows: 20_000, bids: 40_100 }, 'a round now writes all of few')
  t.same(warnings, [])
})
