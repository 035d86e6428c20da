/** The sums of the compared arms have each win of the ledger once, whatever became of the process that stored it. */
import type { Kysely } from 'kysely'
import type { Test } from 'tap'
import {
  addArmDays,
  armDaysOfBids,
  deleteArmDays,
  readArmDays,
} from '../../../admin/store/arm-days.ts'
import type { Store } from '../../../admin/store/index.ts'
import { Outcomes } from '../../../admin/store/outcomes.ts'
import type { Tables } from '../../../admin/store/tables.ts'
import { voidWin } from '../../../admin/store/voids.ts'
import { entry } from '../../support/ledger-entry.ts'
import { type Database, onBoth, silent, storeAt } from '../../support/store.ts'

const day = 86_400_000
const time = 20_000.5 * day
const change = { who: 'ann', account: '*', supplier: 'acme', action: 'void', requestId: 'r' }

/** A win of 2.1 that was lowered to 1.9, cleared at 1.85 and has a margin of .25. */
const record = ({ ledger }: Store, decision: string, over: Parameters<typeof entry>[1] = {}) =>
  ledger.record(entry(decision, { at: time, ...over }), undefined, '{}')

async function follow(store: Store, stream: 'none' | 'away' = 'none') {
  const refuse = async () => {
    throw new Error('away')
  }
  await store.outcomes.follow({ apply() {}, stream: stream === 'away' ? refuse : null })
  return store
}

const opened = (t: Test, database: Database) =>
  storeAt(t, database, { now: () => time }).then((store) => {
    t.teardown(() => store.outcomes.close())
    return store
  })

/** All wins, and what they spent. */
async function totals({ db }: Pick<Store, 'db'>) {
  const rows = await readArmDays(db, 0)
  const sum = (name: 'n' | 'priced' | 'bids' | 'spends' | 'margins' | 'reduced') =>
    Number(rows.reduce((total, row) => total + row[name], 0).toFixed(9))
  return { n: sum('n'), priced: sum('priced'), spends: sum('spends'), reduced: sum('reduced') }
}
const winsOf = (n: number) => ({
  ...{ n, priced: n, spends: Number((2.1 * n).toFixed(9)), reduced: Number((0.2 * n).toFixed(9)) },
})

/** A database whose transactions commit, but whose caller does not get the response of the next one. */
function losingResponses(db: Kysely<Tables>) {
  const lost = { next: false }
  const transaction = () => ({
    async execute(work: Parameters<ReturnType<typeof db.transaction>['execute']>[0]) {
      const done = await db.transaction().execute(work)
      if (!lost.next) return done
      lost.next = false
      throw new Error('the connection was lost')
    },
  })
  const losing = new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (name === 'transaction') return transaction
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return { lost, losing }
}

onBoth(async (t, database) => {
  t.test('a win is in the sums when its entry of the journal has gone', async (t) => {
    const store = await follow(await opened(t, database))
    await record(store, 'one')
    t.equal(await record(store, 'one'), 'duplicate')
    await record(store, 'shadow', { arm: 'shadow' })
    await record(store, 'holdout', { arm: 'holdout', in_ba: '2.1', out_ba: '2.1' })
    await store.outcomes.run()
    t.match(await totals(store), { n: 2, priced: 2, spends: 4.2, reduced: 0.2 })
    await store.outcomes.run()
    t.match(await totals(store), { n: 2 }, 'once')
    await store.db.deleteFrom('arm_days').execute()
  })

  t.test('the wins of a process that ended are added by the next one, once', async (t) => {
    const ended = await opened(t, database)
    await record(ended, 'ended')
    t.match(await totals(ended), winsOf(0))
    await ended.outcomes.close()
    for (let n = 0; n < 2; n++) await follow(await opened(t, database))
    t.match(await totals(ended), winsOf(1))
    await ended.db.deleteFrom('arm_days').execute()
  })

  t.test('while the event log is away, wins are added once, and not again later', async (t) => {
    const store = await follow(await opened(t, database), 'away')
    await record(store, 'away')
    await store.outcomes.run()
    t.match(await totals(store), winsOf(1))
    await store.outcomes.close()
    await follow(await opened(t, database))
    t.same(await store.db.selectFrom('outcomes').selectAll().execute(), [])
    t.match(await totals(store), winsOf(1))
    await store.db.deleteFrom('arm_days').execute()
  })

  t.test('a response of the database that is lost does not add wins twice', async (t) => {
    const store = await opened(t, database)
    const { lost, losing } = losingResponses(store.db)
    const { postgres } = store
    const deps = { db: losing, postgres, now: () => time, monotonic: () => 0, log: silent }
    const outcomes = new Outcomes(deps)
    await outcomes.follow({ apply() {}, stream: null })
    t.teardown(() => outcomes.close())
    const batch = outcomes.begin()
    const row = entry('lost', { at: time })
    const outcome = {
      kind: 'notice' as const,
      decision: 'lost',
      event: 'win',
      body: '{}',
      at: time,
      row,
    }
    await outcomes.insert(store.db, batch, [outcome])
    outcomes.committed(batch, [outcome])
    lost.next = true
    await outcomes.run()
    t.equal(lost.next, false, 'the response was lost')
    await outcomes.run()
    t.match(await totals(store), winsOf(1))
    await store.db.deleteFrom('arm_days').execute()
  })

  t.test('a voided win is taken out of the sums, before or after it was added', async (t) => {
    const store = await opened(t, database)
    await record(store, 'early')
    await voidWin(
      store,
      'early',
      time,
      () => true,
      () => change,
    )
    t.match(await totals(store), winsOf(-1), 'the journal still has the win')
    await follow(store)
    t.match(await totals(store), winsOf(0))
    await record(store, 'late')
    await store.outcomes.run()
    await voidWin(
      store,
      'late',
      time,
      () => true,
      () => change,
    )
    await voidWin(
      store,
      'late',
      time,
      () => true,
      () => change,
    )
    t.match(await totals(store), winsOf(0), 'once')
  })

  t.test('bids are added by day, and old days go', async (t) => {
    const { db } = await opened(t, database)
    const bids = {
      hour: time,
      supplier: 'acme',
      mode: 'revenue',
      via: 'proxy',
      publisher: 'p',
      domain: 'd',
    }
    const row = { ...bids, arm: 'treated', bids: 3, in_sum: 6, out_sum: 5 }
    await addArmDays(db, armDaysOfBids([row, { ...row, publisher: 'q' }, { ...row, arm: 'floor' }]))
    const [found] = (await readArmDays(db, 20_000)).filter(({ event }) => event === '')
    t.match(found, { supplier: 'acme', arm: 'treated', bids: 6, n: 0 })
    t.same(await readArmDays(db, 20_001), [])
    await deleteArmDays(db, time + 8 * day)
    t.same(await readArmDays(db, 0), [])
  })
})
