/** Bids decided reach the store whatever suppliers and publishers send, on both databases. */
import t from 'tap'
import { openStore } from '../../admin/store/index.ts'
import { createRollup } from '../../admin/store/rollup.ts'
import type { DecisionRecord } from '../../opd/engine.ts'
import { createBidLog } from '../../opd/state/bidlog.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'

const now = 1_790_000_000_000
const record = (over: Partial<DecisionRecord>): DecisionRecord => ({
  id: 'd',
  bidId: 'b',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  propensity: 1,
  inBa: '2',
  outBa: '1.9',
  currency: 'USD',
  at: now,
  modelVersion: 0,
  publisher: 'p',
  domain: 'd',
  teaches: true,
  features: new Uint8Array(),
  ...over,
})

function suite(
  title: string,
  skip: string | false,
  make: () => Promise<{ url: string; close(): Promise<void> }>,
) {
  t.test(title, { skip }, async (t) => {
    const database = await make()
    const warnings: string[] = []
    const log = {
      info() {},
      warn: (_: object, text: string) => void warnings.push(text),
      error() {},
    }
    const store = await openStore(database.url, { now: () => now, log })
    const rollup = createRollup(store, log)
    t.teardown(async () => {
      await rollup.close()
      await store.close()
      await database.close()
    })
    const bidLog = rollup.counting(createBidLog({ ttl: 60_000, now: () => now }))
    const edge = `1${'0'.repeat(308)}`
    for (let round = 0; round < 3; round++) {
      for (const over of [
        { publisher: 'a\0b' },
        { domain: '\ud800' },
        { inBa: edge, outBa: edge },
        { publisher: 'x y', domain: 'z' },
        { publisher: 'x', domain: 'y z' },
      ])
        bidLog.put(record(over))
      await rollup.flush()
    }
    t.same(warnings, [])
    if (store.postgres) {
      bidLog.put(record({ supplier: 'no\0supplier' }))
      bidLog.put(record({ supplier: 'zeta' }))
      await rollup.flush()
      t.same(warnings, ['decided bids have no place'], 'what cannot be kept holds up no other')
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
}

suite('SQLite', false, async () => ({ url: `sqlite:${newFolder()}/b.db`, close: async () => {} }))
suite('PostgreSQL', postgresAbsent, startPostgres)
