/** A row that the database will not have costs the others of its commit nothing. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { entry } from '../../support/ledger-entry.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { storeAt } from '../../support/store.ts'

const win = (decision: string, cleared = '1') => entry(decision, { bidId: 'b', cleared, at: 1 })

t.test('on PostgreSQL', { skip: postgresAbsent }, async (t) => {
  const database = await startPostgres()
  t.teardown(() => database.close())
  const store = await storeAt(t, database)
  const wins = [
    ...Array.from({ length: 10 }, (_, n) => win(`d${n}`)),
    win(randomBytes(10_000).toString('hex')),
    win('no number', 'x'),
    ...Array.from({ length: 10 }, (_, n) => win(`d${n + 5}`)),
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
