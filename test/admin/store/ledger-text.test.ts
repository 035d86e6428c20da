/** Rows and questions go to the database as one text: nothing that stands in them is lost, read twice, or refused. */
import t from 'tap'
import type { LedgerEntry } from '../../../admin/ports.ts'
import { createBatcher } from '../../../admin/store/batcher.ts'
import { entry } from '../../support/ledger-entry.ts'
import { onBoth, storeAt } from '../../support/store.ts'

const row = (decision: string, over: Partial<LedgerEntry>) =>
  entry(decision, {
    inBa: null,
    over: true,
    decidedAt: null,
    at: 1_700_000_000_000,
    ...over,
  })

const texts = ['"quoted"', "it's", '\\u0041', 'a\\', '💥', 'é\u0301', '[1]', 'null', ' ', '%', '{}']
const prices = ['0', '1.10', '12345678901234567890.123456789012345678', '0.000000000000000001']

onBoth(async (t, database) => {
  const { db, ledger } = await storeAt(t, database)
  const entries = [
    ...texts.map((text) => row(`text ${text}`, { publisher: text, bidId: text, domain: '' })),
    ...prices.map((price) => row(`price ${price}`, { cleared: price, margin: `-${price}` })),
  ]
  await Promise.all(entries.map((each) => ledger.record(each)))
  const rows = new Map(
    (await db.selectFrom('ledger').selectAll().execute()).map((row) => [row.decision, row]),
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

  const half = row('half \ud800', { bidId: 'half \ud800', domain: 'd\udc00' })
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

t.test('questions of one turn are one; a failure is theirs alone', async (t) => {
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
