/** What follows a committed row follows once: from memory, or from the journal when the process did not get that far. */
import type { Test } from 'tap'
import { applyLossOutcome } from '../../../admin/impressions/losses.ts'
import { lossOutcome } from '../../../admin/impressions/outcome.ts'
import type { Store } from '../../../admin/store/index.ts'
import { deleteOutcomes, type Outcome } from '../../../admin/store/outcomes.ts'
import { voidWin } from '../../../admin/store/voids.ts'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { type Database, onBoth, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

/** A process of a node. `events`: its event log, which may be away. */
async function processOn(t: Test, database: Database, events?: { away: boolean; got: string[] }) {
  const store = await storeAt(t, database)
  const api = await impressionsApi(t, {
    store: store.ledger,
    losses: store.losses,
    integrations: [integration('acme'), integration('both', {}, 'both')],
  })
  const follow = () =>
    store.outcomes.follow({
      apply(outcome) {
        if (outcome.kind === 'notice') api.notices.applyOutcome(outcome)
        if (outcome.kind === 'loss') applyLossOutcome(api, outcome)
      },
      stream: events === undefined ? null : (outcomes) => receive(events, outcomes),
    })
  t.teardown(() => store.outcomes.close())
  return { ...api, store, follow }
}
type Process = Awaited<ReturnType<typeof processOn>>

async function receive(events: { away: boolean; got: string[] }, outcomes: readonly Outcome[]) {
  if (events.away) throw new Error('away')
  for (const { kind, row, body } of outcomes)
    if (kind === 'loss') events.got.push(`loss ${lossOutcome(body).reason}`)
    else if (row?.status === 'attributed' || row?.status === 'voided') events.got.push(row.status)
}

const entries = (store: Store) =>
  store.db.selectFrom('outcomes').select(['kind', 'applied']).execute()

/** Wins, an unattributed and a rejected notice, and a loss. */
async function report({ engine, notify, lose }: Process, name: string) {
  const bid = (id: string, supplier = 'acme') => ({
    bid_id: `${name}-${id}`,
    svc_opd: auction(engine, { id: `${name}-${id}`, supplier }).svcOpd,
  })
  await notify({ ...bid('win'), price: '0.5', min_to_win: '0.4' })
  const both = bid('both', 'both')
  await notify({ ...both, price: '0.25' })
  await notify({ ...both, price: '0.25', event: 'billing' })
  await notify({ ...bid('dear'), price: '99' })
  await notify({ bid_id: `${name}-nobody`, price: '0.5' })
  await lose({ ...bid('lost'), loss: '102', min_to_win: '1.5' })
}

/** What a process has counted of notices. */
const figuresOf = ({ tally, counters, engine }: Process) => ({
  notices: tally(),
  losses: [...counters.losses],
  money: [...counters.money],
  publishers: [...counters.publishers.samples()],
  sums: ['acme', 'both'].map((ssp) => {
    const { bids: _bids, in: _in, ...wins } = engine.stats.of(ssp).modes.revenue.sums('treated')
    return wins
  }),
})

onBoth(async (t, database) => {
  t.test(
    'a process that ended before anything followed: the next one does all of it, once',
    async (t) => {
      const events = { away: false, got: [] as string[] }
      const ended = await processOn(t, database)
      await report(ended, 'ended')
      t.equal((await entries(ended.store)).length, 6)
      const expected = figuresOf(ended)
      const taught = [...ended.learner.taught]
      t.equal(taught.length, 3)

      const next = await processOn(t, database, events)
      await next.follow()
      t.same(figuresOf(next), expected)
      t.same(next.learner.taught, taught)
      await next.store.outcomes.close()
      t.same(events.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
      t.same(await entries(next.store), [], 'nothing is left')
      const third = await processOn(t, database, events)
      await third.follow()
      t.same([third.learner.taught, third.tally()], [[], {}])
    },
  )

  t.test('what followed from memory does not follow again', async (t) => {
    const one = await processOn(t, database)
    await one.follow()
    await report(one, 'alive')
    const expected = figuresOf(one)
    for (let n = 0; n < 3; n++) {
      one.store.outcomes.look()
      await one.store.outcomes.run()
    }
    t.same(figuresOf(one), expected)
    t.equal(one.store.outcomes.counts.recovered, 0)
    t.same(await entries(one.store), [])
  })

  t.test(
    'while the event log is away, outcomes wait in the store and are not applied again',
    async (t) => {
      const events = { away: true, got: [] as string[] }
      const one = await processOn(t, database, events)
      await one.follow()
      await report(one, 'away')
      await one.store.outcomes.run()
      t.equal((await entries(one.store)).filter(({ applied }) => Number(applied) === 1).length, 6)
      await one.store.outcomes.close()
      t.equal((await entries(one.store)).length, 6)

      events.away = false
      const two = await processOn(t, database, events)
      await two.follow()
      await two.store.outcomes.close()
      t.same(two.learner.taught, [])
      t.same(two.tally(), {})
      t.same(events.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
      t.same(await entries(two.store), [])
    },
  )

  t.test('a node that lives takes over from one that does not any more', async (t) => {
    const one = await processOn(t, database)
    await one.follow()
    const killed = await processOn(t, database)
    await report(killed, 'killed')
    // a process on SQLite is alone, so only its next start takes over
    t.equal((await entries(one.store)).length, 6)
    if (!one.store.postgres) return
    const alive = (node: string, at: number) =>
      one.store.db.insertInto('outcome_nodes').values({ node, alive: at }).execute()
    await alive(killed.store.outcomes.node, 1)
    await until(async () => (await entries(one.store)).length === 0)
    t.same(figuresOf(one), figuresOf(killed))
    t.same(one.learner.taught, killed.learner.taught)
  })

  t.test('entries that nobody takes are deleted with the rows of their time', async (t) => {
    const { store, follow } = await processOn(t, database)
    const old = { kind: 'void' as const, decision: 'd', event: 'win', body: '{}', at: 1000 }
    await store.outcomes.insert(store.db, 'old', [old, { ...old, at: 3000 }])
    t.equal(await deleteOutcomes(store.db, 2000), false)
    t.equal(
      (await store.db.selectFrom('outcomes').select('at').where('batch', '=', 'old').execute())
        .length,
      1,
    )
    await follow()
  })

  t.test('a void is streamed as the voided rows of its win', async (t) => {
    const events = { away: false, got: [] as string[] }
    const one = await processOn(t, database, events)
    await one.follow()
    await report(one, 'void')
    await one.store.outcomes.run()
    const { decision } = await one.store.db
      .selectFrom(one.store.postgres ? ('ledger_days' as 'ledger') : 'ledger')
      .select('decision')
      .where('bid_id', '=', 'void-both')
      .where('event', '=', 'win')
      .executeTakeFirstOrThrow()
    const change = { who: 'o', account: '*', requestId: '', supplier: 'both', action: 'void' }
    t.match(
      await voidWin(
        one.store,
        decision,
        one.now(),
        () => true,
        () => change,
      ),
      {
        events: ['billing', 'win'],
      },
    )
    await one.store.outcomes.run()
    await one.store.outcomes.close()
    t.equal(events.got.filter((status) => status === 'voided').length, 2)
    t.same(await entries(one.store), [])
  })
})
