/** A row that the database will not have costs the others of its commit nothing. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { LedgerEntry } from '../../admin/ports.ts'
import { openStore } from '../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'

const log = { info() {}, warn() {}, error() {} }
const entry = (decision: string, cleared = '1'): LedgerEntry => ({
  decision,
  event: 'win',
  bidId: 'b',
  status: 'attributed',
  by: 'context',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  publisher: null,
  domain: null,
  inBa: '1',
  outBa: '1',
  cleared,
  priceDsp: null,
  currency: 'USD',
  margin: '0',
  late: false,
  over: false,
  reason: null,
  decidedAt: 1,
  at: 1,
})

t.test('on PostgreSQL', { skip: postgresAbsent }, async (t) => {
  const database = await startPostgres()
  const store = await openStore(database.url, { now: Date.now, log })
  t.teardown(async () => {
    await store.close()
    await database.close()
  })
  const wins = [
    ...Array.from({ length: 10 }, (_, n) => entry(`d${n}`)),
    entry(randomBytes(10_000).toString('hex')),
    entry('no number', 'x'),
    ...Array.from({ length: 10 }, (_, n) => entry(`d${n + 5}`)),
  ]
  const results = await Promise.allSettled(wins.map((each) => store.ledger.record(each)))
  const outcomes = results.map((each) => (each.status === 'fulfilled' ? each.value : 'refused'))
  t.same(outcomes.slice(10, 12), ['refused', 'refused'])
  t.equal(outcomes.filter((each) => each === 'recorded').length, 15)
  t.equal(outcomes.filter((each) => each === 'duplicate').length, 5)
  const seen = await Promise.allSettled(
    ['acme', 'a\0b', 'zeta'].map((supplier) => store.ledger.seenBid('b', 'win', 0, { supplier })),
  )
  t.match(seen, [{ value: true }, { status: 'rejected' }, { value: false }])
})
