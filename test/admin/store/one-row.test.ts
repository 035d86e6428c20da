/** Which rows are the same win, on both databases; two rows of one win, left by killed nodes, are merged. */
import { foreignBid } from '../../../admin/store/ledger-input.ts'
import { type LedgerRow, ledgerTable } from '../../../admin/store/tables.ts'
import { entry, insertRows, unplaced } from '../../support/ledger-entry.ts'
import { onBoth, storeAt } from '../../support/store.ts'

onBoth(async (t, database) => {
  const store = await storeAt(t, database)
  const { ledger, db, postgres } = store
  const same = { since: 500, supplier: 'acme' }
  const win = (bidId: string, over: Partial<LedgerRow> = {}) =>
    entry(`d ${bidId}`, { bid_id: bidId, at: 1000, ...over })
  const bare = (bidId: string, over: Partial<LedgerRow> = {}) =>
    unplaced(`bid:${bidId}`, { bid_id: bidId, at: 1000, ...over })
  const under = async (bidId: string) => {
    const rows = await db
      .selectFrom(ledgerTable(postgres))
      .select('status')
      .where('bid_id', '=', bidId)
      .orderBy('status')
      .execute()
    return rows.map(({ status }) => status)
  }

  t.test('an attributed row replaces the unattributed one of its win', async (t) => {
    const cases = {
      'of nobody': [bare('of nobody'), ['attributed']],
      own: [bare('own', { supplier: 'acme' }), ['attributed']],
      'of another supplier': [
        bare('of another supplier', { supplier: 'zeta' }),
        ['attributed', 'unattributed'],
      ],
      'of another account': [
        bare('of another account', { reason: foreignBid }),
        ['attributed', 'unattributed'],
      ],
      'of before the bid': [bare('of before the bid', { at: 499 }), ['attributed', 'unattributed']],
      'another event': [
        bare('another event', { event: 'billing' }),
        ['attributed', 'unattributed'],
      ],
      refused: [bare('refused', { status: 'rejected' }), ['attributed', 'rejected']],
    } as const
    let replaced = 0
    for (const [bidId, [before, after]] of Object.entries(cases)) {
      t.equal(await ledger.record(before, { since: 0, supplier: null }), 'recorded', bidId)
      t.equal(await ledger.record(win(bidId), same), 'recorded', bidId)
      t.same(await under(bidId), after, bidId)
      if (after.length === 1) replaced++
      t.equal(ledger.replaced, replaced, bidId)
    }
  })

  t.test('an unattributed row is a duplicate of any win under its bid id', async (t) => {
    await ledger.record(win('first'), same)
    const any = { since: 500, supplier: null }
    t.equal(await ledger.record(bare('first'), any), 'duplicate')
    t.equal(await ledger.record(bare('first'), { ...any, supplier: 'acme' }), 'duplicate')
    t.equal(await ledger.record(bare('first', { at: 9000 }), { ...any, since: 1001 }), 'recorded')
    t.equal(await ledger.record(bare('several'), any), 'recorded')
    const named = bare('several', { decision: 'bid@acme:several', supplier: 'acme' })
    t.equal(await ledger.record(named, { ...any, supplier: 'acme' }), 'duplicate')
    // all handed over at once: none of them sees the others in its own statement
    const answers = await Promise.all([
      ledger.record(bare('mixed'), any),
      ledger.record(win('mixed'), same),
      ledger.record(bare('mixed', { decision: 'bid@acme:mixed' }), { ...any, supplier: 'acme' }),
    ])
    t.same(answers, ['recorded', 'recorded', 'duplicate'])
    t.same(await under('mixed'), ['attributed'])
  })

  t.test('two rows of one win become one at its next notice', async (t) => {
    // what two killed nodes have committed side by side; of SQLite one process writes
    const next: Record<string, (bidId: string) => Promise<string>> = {
      'with context': (bidId) => ledger.record(win(bidId), same),
      ...(postgres
        ? { bare: (bidId) => ledger.record(bare(bidId), { ...same, supplier: null }) }
        : {}),
    }
    for (const [bidId, notice] of Object.entries(next)) {
      await insertRows(store, [win(bidId), bare(bidId)])
      t.equal(await notice(bidId), 'duplicate', bidId)
      t.same(await under(bidId), ['attributed'], bidId)
    }
  })

  t.test('two rows of one win are one when their hour is summed', async (t) => {
    if (!postgres) return
    const begin = 10 * 3_600_000
    const later = { at: begin + 1000, decided_at: begin }
    const bids = ['reported later', 'reported before', 'alone', 'long before']
    const wins = [
      win('reported later', later),
      win('reported before', { ...later, at: begin + 900 }),
      win('long before', { at: begin - 5_000_000, decided_at: begin - 5_000_000 }),
    ]
    const bareOnes = bids.map((bidId) => bare(bidId, { at: begin + 1000 }))
    await insertRows(store, [...wins, ...bareOnes])
    const { replaced } = ledger
    await ledger.sweepHour(begin)
    t.same(await Promise.all(bids.map(under)), [
      ['attributed'],
      ['attributed'],
      ['unattributed'],
      ['attributed', 'unattributed'],
    ])
    t.equal(ledger.replaced, replaced + 2)
  })

  t.test('a repeat is no duplicate of a row that did not reach the disk', async (t) => {
    if (database.stop === undefined) return
    await database.stop()
    const both = [ledger.record(win('lost'), same), ledger.record(win('lost'), same)]
    const answers = await Promise.allSettled(both)
    t.same(
      answers.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
  })
})
