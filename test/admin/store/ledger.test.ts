/** The ledger: once per decision and event, on disk before it says so, the same on both stores. */
import { entry } from '../../support/ledger-entry.ts'
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
  await ledger.record(entry('r', { status: 'rejected', bidId: 'refused' }))
  t.equal(await ledger.seenBid('refused', 'win', 0), false, 'a rejected notice is no win')
  const other = await storeAt(t, database, { pollInterval: 50 })
  t.equal(await other.ledger.record(entry('a')), 'duplicate', 'to any node, after any restart')
  const [row] = await other.db
    .selectFrom('ledger')
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
