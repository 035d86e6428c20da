/** Notices that arrive while the shared bid log cannot be asked: recorded without a guess, and attributed afterwards. */
import type { Test } from 'tap'
import { Reconciler } from '../../../admin/impressions/reconciler.ts'
import type { Store } from '../../../admin/store/index.ts'
import { ledgerTable } from '../../../admin/store/tables.ts'
import { unattributedWins } from '../../../admin/store/unattributed.ts'
import type { SharedBidLog } from '../../../opd/ports.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { type Database, onBoth, silent, storeAt } from '../../support/store.ts'

/** The shared log of the nodes of a test, which can be away. */
function sharedLog() {
  const bids: DecisionRecord[] = []
  const state = { away: false }
  const log: SharedBidLog = {
    put: (record) => void bids.push(record),
    find: async (bidId) => (state.away ? null : bids.filter((bid) => bid.bidId === bidId)),
    async written() {},
  }
  return { log, state }
}

async function world(t: Test, database: Database) {
  const store = await storeAt(t, database)
  const { log, state } = sharedLog()
  const integrations = [
    integration('a'),
    integration('b'),
    integration('margin', { mode: 'margin' }),
    {
      ...integration('yen'),
      clearing: { encoding: 'base64', currency: null, maxOver: 1.5 } as const,
    },
  ]
  const node = async () => {
    const api = await impressionsApi(t, {
      store: store.ledger,
      integrations,
      shared: log,
      encoded: true,
    })
    const reconciler = new Reconciler({
      notices: api.notices,
      wins: unattributedWins(store),
      engine: api.engine,
      contextTtl: () => 48 * hour,
      now: api.now,
      log: silent,
    })
    t.teardown(() => reconciler.close())
    return { ...api, reconciler }
  }
  return { store, state, one: await node(), two: await node() }
}

const rowsOf = async (store: Store, bidId: string) =>
  (
    await store.db
      .selectFrom(ledgerTable(store.postgres))
      .select(['supplier', 'status', 'reason', 'cleared', 'margin', 'at'])
      .where('bid_id', '=', bidId)
      .execute()
  ).map((row) => ({ ...row, margin: row.margin === null ? null : Number(row.margin) }))

onBoth(async (t, database) => {
  const { store, state, one, two } = await world(t, database)
  const away = async (work: () => Promise<void>) => {
    state.away = true
    await work()
    state.away = false
  }

  t.test(
    'a bare notice is provisional although this node has a decision, and attributed later',
    async (t) => {
      await away(async () => {
        auction(one.engine, { id: 'x', supplier: 'a', price: '2.00' })
        const answer = await one.notify({ bid_id: 'x', price: '1.5', min_to_win: '1.2' })
        t.same(answer.body, { status: 'unattributed', by: null, reason: 'provisional' })
        t.match(await rowsOf(store, 'x'), [
          { status: 'unattributed', reason: 'provisional', margin: null },
        ])
        await one.reconciler.run()
        t.match(await rowsOf(store, 'x'), [{ reason: 'provisional' }], 'the log is still away')
      })
      const [before] = await rowsOf(store, 'x')
      await two.reconciler.run()
      t.match(await rowsOf(store, 'x'), [
        { supplier: 'a', status: 'attributed', cleared: '1.5', margin: 0.5, at: before!.at },
      ])
      t.match(two.reconciler.counts, { attributed: 1 })
      t.same(two.tally(), {}, 'no notice was received there')
      const { wins } = two.engine.stats.supplierStats('a').modes.revenue.sums('treated')
      t.equal(wins, 1, 'the win counts at the node that attributed it')
      t.match(two.learner.updates, [{ kind: 'win', cleared: 1.5, minToWin: 1.2 }])
      t.match((await one.notify({ bid_id: 'x', price: '1.5' })).body, { status: 'duplicate' })
    },
  )

  t.test('a bid id of two suppliers is never guessed', async (t) => {
    await away(async () => {
      auction(one.engine, { id: 'both', supplier: 'a', price: '2.00' })
      const { svcOpd } = auction(two.engine, { id: 'both', supplier: 'b', price: '3.00' })
      t.match((await one.notify({ bid_id: 'both', price: '1.5' })).body, { reason: 'provisional' })
      const context = { bid_id: 'both', price: '1.5', svc_opd: svcOpd }
      t.match((await two.notify(context)).body, { status: 'attributed', by: 'context' })
    })
    t.match(await rowsOf(store, 'both'), [{ supplier: 'b', status: 'attributed', margin: 1.5 }])
    await one.reconciler.run()
    t.equal((await rowsOf(store, 'both')).length, 1)

    await away(async () => {
      auction(one.engine, { id: 'two', supplier: 'a' })
      auction(two.engine, { id: 'two', supplier: 'b' })
      await one.notify({ bid_id: 'two', price: '0.5' })
    })
    await one.reconciler.run()
    t.match(await rowsOf(store, 'two'), [{ status: 'unattributed', reason: 'ambiguous' }])
  })

  t.test('what no node knows stays unattributed, until a node does', async (t) => {
    await away(async () => void (await one.notify({ bid_id: 'later', price: '0.5' })))
    await one.reconciler.run()
    t.match(await rowsOf(store, 'later'), [{ status: 'unattributed', reason: 'unknown_bid' }])
    await two.reconciler.run()
    t.match(await rowsOf(store, 'later'), [{ reason: 'unknown_bid' }])
    auction(two.engine, { id: 'later', supplier: 'a' })
    await Promise.all([one.reconciler.run(), two.reconciler.run()])
    t.match(await rowsOf(store, 'later'), [{ supplier: 'a', status: 'attributed' }])
  })

  t.test('a context that arrives during the look-up is one row', async (t) => {
    const races = Array.from({ length: 20 }, (_, n) => `race-${n}`)
    const contexts = new Map<string, string>()
    await away(async () => {
      for (const id of races) {
        contexts.set(id, auction(one.engine, { id, supplier: 'a' }).svcOpd)
        await two.notify({ bid_id: id, price: '0.5' })
      }
    })
    await Promise.all([
      one.reconciler.run(),
      two.reconciler.run(),
      ...races.map((id) => one.notify({ bid_id: id, price: '0.5', svc_opd: contexts.get(id) })),
    ])
    await Promise.all([one.reconciler.run(), two.reconciler.run()])
    for (const id of races)
      t.match(await rowsOf(store, id), [{ supplier: 'a', status: 'attributed' }])
    const wins = [one, two].map(
      ({ engine }) => engine.stats.supplierStats('a').modes.revenue.sums('treated').wins,
    )
    // and those of the tests before
    t.equal(wins[0]! + wins[1]!, races.length + 2)
  })

  t.test('a win that may not be attributed without its context gets that reason', async (t) => {
    await away(async () => {
      auction(one.engine, { id: 'm', supplier: 'margin' })
      auction(one.engine, { id: 'dear', supplier: 'a', price: '1.00' })
      await one.notify({ bid_id: 'm', price: '0.5' })
      await one.notify({ bid_id: 'dear', price: '9' })
    })
    await one.reconciler.run()
    t.match(await rowsOf(store, 'm'), [{ status: 'unattributed', reason: 'svc_opd_required' }])
    t.match(await rowsOf(store, 'dear'), [{ status: 'unattributed', reason: 'implausible_price' }])
  })

  t.test('an encoded price waits with 503, because its supplier is not known', async (t) => {
    auction(one.engine, { id: 'e', supplier: 'yen' })
    const notice = { bid_id: 'e', price: Buffer.from('0.5').toString('base64') }
    await away(async () => {
      t.equal((await one.notify(notice)).http, 503)
      const named = await one.notify({ ...notice, ssp: 'yen' })
      t.match(named.body, { status: 'unattributed', reason: 'provisional' })
    })
    await one.reconciler.run()
    t.match(await rowsOf(store, 'e'), [{ supplier: 'yen', status: 'attributed', cleared: '0.5' }])
  })
})
