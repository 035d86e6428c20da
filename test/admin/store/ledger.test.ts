/** The ledger: one row for each decision and event, acknowledged when it is on disk, on both databases and with any text. */

import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createBatcher } from '../../../admin/store/batcher.ts'
import { type LedgerRow, ledgerTable } from '../../../admin/store/tables.ts'
import { entry } from '../../support/ledger-entry.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { onBoth, storeAt } from '../../support/store.ts'

onBoth(async (t, database) => {
  const store = await storeAt(t, database, { pollInterval: 50 })
  const { ledger } = store
  t.equal(await ledger.record(entry('a')), 'recorded')
  t.equal(await ledger.record(entry('a')), 'duplicate')
  t.equal(await ledger.record(entry('a', { event: 'billing' })), 'recorded', 'each event once')
  const together = await Promise.all(
    Array.from({ length: 1200 }, (_each, n) => ledger.record(entry(`t${n % 600}`))),
  )
  t.equal(
    together.filter((outcome) => outcome === 'recorded').length,
    600,
    'twins of one batch count once',
  )
  t.equal(await ledger.seenBid('bid-a', 'win', 0), true)
  t.equal(await ledger.seenBid('bid-a', 'win', Date.now() + 1000), false)
  t.equal(await ledger.seenBid('bid-z', 'win', 0), false)
  await ledger.record(entry('r', { status: 'rejected', bid_id: 'refused' }))
  t.equal(await ledger.seenBid('refused', 'win', 0), false, 'a rejected notice is no win')
  const other = await storeAt(t, database, { pollInterval: 50 })
  t.equal(await other.ledger.record(entry('a')), 'duplicate', 'to any node, after any restart')
  const [row] = await other.db
    .selectFrom(ledgerTable(other.postgres))
    .selectAll()
    .where('decision', '=', 'a')
    .where('event', '=', 'win')
    .execute()
  t.match(row, { in_ba: '2.10', margin: '0.25', late: 0 })
  if (database.stop === undefined) return
  await database.stop()
  await t.rejects(ledger.record(entry('lost')), { name: 'StoreError' })
  t.same(await store.lost(), ['management', 'wins'])
  await database.start!()
  const again = async (): Promise<string> => ledger.record(entry('lost')).catch(() => again())
  t.equal(await again(), 'recorded', 'it comes back by itself')
})

const row = (decision: string, over: Partial<LedgerRow>) =>
  entry(decision, {
    in_ba: null,
    over: 1,
    decided_at: null,
    at: 1_700_000_000_000,
    ...over,
  })

const texts = ['"quoted"', "it's", '\\u0041', 'a\\', '💥', 'é\u0301', '[1]', 'null', ' ', '%', '{}']
const prices = ['0', '1.10', '12345678901234567890.123456789012345678', '0.000000000000000001']

onBoth(async (t, database) => {
  const { db, ledger, postgres } = await storeAt(t, database)
  const entries = [
    ...texts.map((text) => row(`text ${text}`, { publisher: text, bid_id: text, domain: '' })),
    ...prices.map((price) => row(`price ${price}`, { cleared: price, margin: `-${price}` })),
  ]
  await Promise.all(entries.map((entry) => ledger.record(entry)))
  const rows = new Map(
    (await db.selectFrom(ledgerTable(postgres)).selectAll().execute()).map((row) => [
      row.decision,
      row,
    ]),
  )
  for (const text of texts)
    t.match(rows.get(`text ${text}`), { publisher: text, domain: '', in_ba: null, late: 0 })
  for (const price of prices) {
    const row = rows.get(`price ${price}`)!
    t.match(row, { cleared: price, over: 1, at: 1_700_000_000_000, decided_at: null })
    // PostgreSQL knows no negative zero
    if (price !== '0') t.equal(row.margin, `-${price}`)
  }
  const seen = await Promise.all(texts.map((text) => ledger.seenBid(text, 'win', 0)))
  t.ok(seen.every(Boolean), 'each is found by its own text')
  t.equal(await ledger.seenBid('A', 'win', 0), false, 'and by no other')

  const half = row('half \ud800', { bid_id: 'half \ud800', domain: 'd\udc00' })
  t.equal(await ledger.record(half), 'recorded', 'a lone surrogate is no character')
  t.equal(await ledger.seenBid('half \ud800', 'win', 0), true)
  t.equal(await ledger.seenBid('half \ufffd', 'win', 0), true)
  const many = await Promise.all(
    Array.from({ length: 1300 }, (_, n) => ledger.seenBid(n === 777 ? 'null' : `n${n}`, 'win', 0)),
  )
  t.same(
    many.flatMap((found, n) => (found ? [n] : [])),
    [777],
    'each question has its own answer',
  )
})

t.test('look-ups of one turn share a query, and its failure', async (t) => {
  const asked: number[][] = []
  const double = createBatcher<number, number>(async (keys) => {
    asked.push(keys)
    if (keys.includes(13)) throw new Error('unlucky')
    return keys.map((key) => key * 2)
  })
  t.same(await Promise.all([1, 2, 3].map(double)), [2, 4, 6])
  await t.rejects(Promise.all([12, 13].map(double)), { message: 'unlucky' })
  t.equal(await double(4), 8)
  t.same(asked, [[1, 2, 3], [12, 13], [4]])
})

const win = (decision: string, cleared = '1') => entry(decision, { bid_id: 'b', cleared, at: 1 })

t.test(
  'a row that PostgreSQL refuses costs the others of its commit nothing',
  { skip: postgresAbsent },
  async (t) => {
    const database = await startPostgres()
    t.teardown(() => database.close())
    const store = await storeAt(t, database)
    const wins = [
      ...Array.from({ length: 10 }, (_, n) => win(`d${n}`)),
      win(randomBytes(10_000).toString('hex')),
      win('no number', 'x'),
      ...Array.from({ length: 10 }, (_, n) => win(`d${n + 5}`)),
    ]
    const results = await Promise.allSettled(wins.map((win) => store.ledger.record(win)))
    const outcomes = results.map((result) =>
      result.status === 'fulfilled' ? result.value : 'refused',
    )
    t.same(outcomes.slice(10, 12), ['refused', 'refused'])
    t.equal(outcomes.filter((outcome) => outcome === 'recorded').length, 15)
    t.equal(outcomes.filter((outcome) => outcome === 'duplicate').length, 5)
    const seen = await Promise.allSettled(
      ['acme', 'a\0b', 'zeta'].map((supplier) => store.ledger.seenBid('b', 'win', 0, { supplier })),
    )
    t.match(seen, [{ value: true }, { status: 'rejected' }, { value: false }])
  },
)
