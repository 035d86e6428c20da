/** Rows older than what is kept go, the others stay, on both databases. */
import t from 'tap'
import { openStore } from '../../admin/store/index.ts'
import { createRetention } from '../../admin/store/retention.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'

const log = { info() {}, warn() {}, error() {} }
const day = 86_400_000
const now = 1_790_000_000_000

function suite(
  title: string,
  skip: string | false,
  make: () => Promise<{ url: string; close(): Promise<void> }>,
) {
  t.test(title, { skip }, async (t) => {
    const database = await make()
    const store = await openStore(database.url, { now: () => now, log })
    const retention = createRetention(store, {
      keep: () => 10 * day,
      now: () => now,
      log,
      breath: 0,
    })
    t.teardown(async () => {
      retention.close()
      await store.close()
      await database.close()
    })
    const entry = (n: number, at: number) => ({
      decision: `d${n}`,
      event: 'win' as const,
      bidId: `b${n}`,
      status: 'attributed' as const,
      by: 'context' as const,
      supplier: 'acme',
      mode: 'revenue',
      arm: 'treated',
      publisher: null,
      domain: null,
      inBa: '1',
      outBa: '1',
      cleared: '1',
      priceDsp: null,
      currency: 'USD',
      margin: '0',
      late: false,
      over: false,
      reason: null,
      decidedAt: at,
      at,
    })
    const old = Array.from({ length: 1200 }, (_, n) => entry(n, now - 11 * day))
    const young = Array.from({ length: 30 }, (_, n) => entry(5000 + n, now - 9 * day))
    await Promise.all([...old, ...young].map((each) => store.ledger.record(each)))
    await store.db
      .insertInto('decided')
      .values(
        [20, 2].map((days) => ({
          hour: now - days * day,
          supplier: 'acme',
          mode: 'revenue',
          arm: 'treated',
          publisher: '',
          domain: '',
          bids: 1,
          in_sum: 1,
          out_sum: 1,
        })),
      )
      .execute()
    t.equal(await retention.look(), 1200)
    const left = await store.db.selectFrom('ledger').select('at').execute()
    t.equal(left.length, 30)
    t.equal(
      (await store.db.selectFrom('decided').select('hour').execute()).length,
      2,
      'roll-ups stay',
    )
    t.equal(await retention.look(), 0)
  })
}

suite('SQLite', false, async () => ({ url: `sqlite:${newFolder()}/b.db`, close: async () => {} }))
suite('PostgreSQL', postgresAbsent, startPostgres)
