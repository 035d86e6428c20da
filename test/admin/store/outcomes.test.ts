/** What follows a committed row follows once: from memory, or from the journal when the process did not get that far. */
import { sql } from 'kysely'
import type { Test } from 'tap'
import { applyLossOutcome } from '../../../admin/impressions/losses.ts'
import { lossOutcome } from '../../../admin/impressions/outcome.ts'
import type { Store } from '../../../admin/store/index.ts'
import { deleteOutcomes, type Outcome, Outcomes } from '../../../admin/store/outcomes.ts'
import { voidWin } from '../../../admin/store/voids.ts'
import type { UnsentDeltas } from '../../../opd/state/model-store.ts'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { type Database, onBoth, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

/**
 * A process of a node. `events`: its event log, which may be away. `clock`: milliseconds that only the test changes. `deltas`:
 * the updates of its models, by their names.
 */
async function processOn(
  t: Test,
  database: Database,
  events?: { away: boolean; got: string[] },
  clock?: { ms: number },
  deltas?: { waiting: string[]; adopted: string[] },
) {
  const options = clock === undefined ? {} : { monotonic: () => clock.ms }
  const store = await storeAt(t, database, options)
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
      deltas: deltas === undefined ? null : updatesOf(deltas),
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

const updatesOf = (deltas: { waiting: string[]; adopted: string[] }): UnsentDeltas => ({
  unsent: () =>
    deltas.waiting.map((id) => ({ id, mode: 'revenue', bytes: () => Buffer.from(`of ${id}`) })),
  adopt(found) {
    const names = found.map(({ bytes }) => String(Buffer.from(bytes)).slice('of '.length))
    deltas.adopted.push(...names)
    deltas.waiting.push(...names)
  },
})

const stored = async ({ store }: Process) =>
  (await store.db.selectFrom('unsent_deltas').select('id').orderBy('id').execute()).map(
    ({ id }) => id,
  )

const entries = (store: Store) =>
  store.db.selectFrom('outcomes').select(['kind', 'applied']).execute()

/** A whole run, not the rest of one that had begun. */
async function run({ store }: Process) {
  await store.outcomes.run()
  await store.outcomes.run()
}

/** The rows of these processes, or of all, are of 31 seconds ago. */
const becomeOld = ({ db }: Store, node?: string) =>
  sql`update outcome_nodes set alive = alive - 31000
    where ${node === undefined ? sql`0 = 0` : sql`node = ${node}`}`.execute(db)

/** Long enough, without an interruption, to know that other nodes have ended. */
async function live(process: Process, clock: { ms: number }) {
  for (let n = 0; n < 5; n++) {
    clock.ms += 9000
    await run(process)
  }
}

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
    const {
      bids: _bids,
      in: _in,
      ...wins
    } = engine.stats.supplierStats(ssp).modes.revenue.sums('treated')
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
      const updates = [...ended.learner.updates]
      t.equal(updates.length, 3)

      const next = await processOn(t, database, events)
      await next.follow()
      t.same(figuresOf(next), expected)
      t.same(next.learner.updates, updates)
      await next.store.outcomes.close()
      t.same(events.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
      t.same(await entries(next.store), [], 'nothing is left')
      const third = await processOn(t, database, events)
      await third.follow()
      t.same([third.learner.updates, third.tally()], [[], {}])
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
      t.same(two.learner.updates, [])
      t.same(two.tally(), {})
      t.same(events.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
      t.same(await entries(two.store), [])
    },
  )

  t.test('a node takes over the outcomes of a node that has ended', async (t) => {
    const clock = { ms: 0 }
    const one = await processOn(t, database, undefined, clock)
    await one.follow()
    const killed = await processOn(t, database)
    await report(killed, 'killed')
    t.equal((await entries(one.store)).length, 6)
    await one.store.db
      .insertInto('outcome_nodes')
      .values({ node: killed.store.outcomes.node, alive: 1 })
      .execute()
    clock.ms += 9000
    await run(one)
    t.equal((await entries(one.store)).length, 6, 'it does not know yet whether the other runs')
    await live(one, clock)
    t.same(await entries(one.store), [])
    t.same(figuresOf(one), figuresOf(killed))
    t.same(one.learner.updates, killed.learner.updates)
  })

  t.test('after the database was away for all nodes, none takes over from another', async (t) => {
    const [logOfOne, logOfTwo] = [
      { away: true, got: [] as string[] },
      { away: false, got: [] as string[] },
    ]
    const [clockOfOne, clockOfTwo] = [{ ms: 0 }, { ms: 0 }]
    const two = await processOn(t, database, logOfTwo, clockOfTwo)
    await two.follow()
    await live(two, clockOfTwo)
    const one = await processOn(t, database, logOfOne, clockOfOne)
    await one.follow()
    await run(two)
    await report(one, 'failover')
    await run(one)
    // as it is if the database goes away directly after the commits
    await one.store.db.updateTable('outcomes').set({ applied: 0 }).execute()
    const updates = [...one.learner.updates]
    await becomeOld(one.store)
    clockOfTwo.ms += 31_000
    await run(two)
    t.same([two.learner.updates, two.tally(), logOfTwo.got], [[], {}, []])
    clockOfOne.ms += 31_000
    await run(one)
    logOfOne.away = false
    await until(async () => (await entries(one.store)).length === 0)
    t.same(logOfOne.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
    t.same(one.learner.updates, updates)
    t.same([two.learner.updates, two.tally(), logOfTwo.got], [[], {}, []])
  })

  t.test('a node that was cut off does not stream what another has taken over', async (t) => {
    const [logOfOne, logOfTwo] = [
      { away: true, got: [] as string[] },
      { away: false, got: [] as string[] },
    ]
    const [clockOfOne, clockOfTwo] = [{ ms: 0 }, { ms: 0 }]
    const two = await processOn(t, database, logOfTwo, clockOfTwo)
    await two.follow()
    const one = await processOn(t, database, logOfOne, clockOfOne)
    await one.follow()
    await report(one, 'cut-off')
    await run(one)
    await becomeOld(one.store, one.store.outcomes.node)
    await live(two, clockOfTwo)
    await until(async () => (await entries(two.store)).length === 0)
    t.same(logOfTwo.got, ['attributed', 'attributed', 'attributed', 'loss 102'])
    clockOfOne.ms += 31_000
    logOfOne.away = false
    await until(() => one.store.outcomes.waiting === 0)
    t.same(logOfOne.got, [])
    await report(one, 'again')
    await until(async () => (await entries(one.store)).length === 0)
    t.equal(logOfOne.got.length, 4, 'what it commits from then on is streamed')
  })

  t.test('what was applied is settled on demand, or not at all', async (t) => {
    const one = await processOn(t, database)
    const { outcomes, db } = one.store
    t.equal(await outcomes.settleApplied(), true, 'nothing was applied')
    await report(one, 'settled')
    t.equal((await entries(one.store)).length, 6)
    t.equal(await outcomes.settleApplied(), true)
    t.same(await entries(one.store), [])
    await report(one, 'away')
    const rename = (from: string, to: string) => db.schema.alterTable(from).renameTo(to).execute()
    await rename('outcomes', 'outcomes_away')
    t.equal(await outcomes.settleApplied(), false, 'the database is away')
    await rename('outcomes_away', 'outcomes')
    t.equal(await outcomes.settleApplied(), true)
    t.same(await entries(one.store), [])
  })

  t.test('an update that was not sent is stored, and sent by the next process', async (t) => {
    const [clock, ofOne, ofTwo] = [
      { ms: 0 },
      { waiting: ['1'], adopted: [] as string[] },
      { waiting: [] as string[], adopted: [] as string[] },
    ]
    const one = await processOn(t, database, undefined, undefined, ofOne)
    await one.follow()
    t.same(await stored(one), [], 'nothing was settled')
    await report(one, 'sent')
    await run(one)
    t.same([await entries(one.store), await stored(one)], [[], ['1']])
    ofOne.waiting = ['2']
    await report(one, 'unsent')
    await run(one)
    t.same(await stored(one), ['2'], 'what was sent is deleted')
    ofOne.waiting = ['2', '3']
    await run(one)
    t.same(await stored(one), ['2'], 'an update without an outcome is not stored')

    const two = await processOn(t, database, undefined, clock, ofTwo)
    await two.follow()
    await becomeOld(one.store, one.store.outcomes.node)
    await live(two, clock)
    t.same(ofTwo.adopted, ['2'], 'once')
    t.same(await stored(two), ['2'], 'until it is sent')
    ofTwo.waiting = []
    await run(two)
    t.same(await stored(two), [])
  })

  t.test('an outcome that only waits for the event log is settled', async (t) => {
    const one = await processOn(t, database, { away: true, got: [] })
    await one.follow()
    await report(one, 'waits')
    t.equal(await one.store.outcomes.settleApplied(), true)
    const left = await entries(one.store)
    t.ok(left.length > 0 && left.every(({ applied }) => Number(applied) === 1))
  })

  t.test('a commit in doubt is found after the database was away for minutes', async (t) => {
    const clock = { ms: 0 }
    const one = await processOn(t, database, undefined, clock)
    await one.follow()
    const { outcomes, db } = one.store
    clock.ms += 61_000
    await run(one)
    const rename = (from: string, to: string) => db.schema.alterTable(from).renameTo(to).execute()
    const batch = outcomes.begin()
    const entry = { kind: 'void' as const, decision: 'd', event: 'win', body: '{}', at: Date.now() }
    await outcomes.insert(db, batch, [entry])
    await rename('outcomes', 'outcomes_away')
    outcomes.unanswered(batch)
    for (let n = 0; n < 3; n++) {
      await run(one)
      clock.ms += 61_000
    }
    await run(one)
    await rename('outcomes_away', 'outcomes')
    await run(one)
    t.equal(outcomes.counts.recovered, 1)
    t.same(await entries(one.store), [])
  })

  t.test('while the event log is away, a backlog is not read again and again', async (t) => {
    const store = await storeAt(t, database)
    let read = 0
    const db = store.wins.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        read += result.rows.length
        return result
      },
    })
    const { postgres } = store
    const monotonic = () => performance.now()
    const outcomes = new Outcomes({ db, postgres, now: Date.now, monotonic, log: silent })
    const events = { away: true, got: [] as string[] }
    const stream = async (some: readonly Outcome[]) => {
      if (events.away) throw new Error('away')
      events.got.push(...some.map(({ decision }) => decision))
    }
    await outcomes.follow({ apply: () => t.fail('it was applied from memory'), stream })
    t.teardown(() => outcomes.close())
    const [batches, rows] = [80, 300]
    for (let n = 0; n < batches; n++) {
      const batch = outcomes.begin()
      const some = Array.from({ length: rows }, (_, m) => ({
        ...{ kind: 'loss' as const, decision: `${n}-${m}`, event: '', body: '{}' },
        ...{ at: Date.now(), row: null },
      }))
      await outcomes.insert(store.db, batch, some)
      outcomes.committed(batch, some)
    }
    await until(() => outcomes.waiting <= 20_000)
    read = 0
    for (let n = 0; n < 6; n++) await outcomes.run()
    t.ok(read < 100, `${read} rows`)
    events.away = false
    await until(async () => (await entries(store)).length === 0)
    t.equal(events.got.length, batches * rows)
    t.equal(new Set(events.got).size, batches * rows)
  })

  t.test('a node that closes does not take over from another', async (t) => {
    const clock = { ms: 0 }
    const one = await processOn(t, database, undefined, clock)
    await one.follow()
    const ended = await processOn(t, database)
    await report(ended, 'closing')
    await one.store.db
      .insertInto('outcome_nodes')
      .values({ node: ended.store.outcomes.node, alive: 0 })
      .execute()
    clock.ms += 3000
    await one.store.outcomes.close()
    t.same([one.learner.updates, one.tally()], [[], {}])
    t.equal((await entries(one.store)).length, 6)
    const next = await processOn(t, database)
    await next.follow()
    t.same(next.learner.updates, ended.learner.updates)
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
