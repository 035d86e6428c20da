/** One win is one row, in any order of notices: on SQLite, and with two nodes on one PostgreSQL. */
import t, { type Test } from 'tap'
import type { Store } from '../../../admin/store/index.ts'
import { ledgerTable } from '../../../admin/store/tables.ts'
import { openRedis } from '../../../opd/state/redis.ts'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { newFolder } from '../../support/process.ts'
import { type Redis, redisAbsent, startRedis } from '../../support/redis.ts'
import { silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

type ImpressionsApi = Awaited<ReturnType<typeof impressionsApi>>

/** A node with a memory of its own. */
async function nodeOn(t: Test, store: Store, redis?: Redis) {
  const integrations = [integration('acme')]
  const options = { auth: 'none', store: store.ledger, integrations } as const
  if (redis === undefined) return impressionsApi(t, options)
  const state = openRedis({
    url: redis.url,
    location: 'here',
    bidTtl: () => 48 * hour,
    log: silent,
    onNodes: () => {},
  })
  t.teardown(() => state.close())
  await until(() => state.connected)
  return impressionsApi(t, { ...options, shared: state.shared })
}

const races = 400
/** Wins that are reported at the same time. */
const together = 20

/** `one` decides; the same win is reported to it with the context, and at once to the other without. */
async function race(
  t: Test,
  one: ImpressionsApi,
  two: ImpressionsApi,
  store: Store,
  decided = async (_id: string) => {},
) {
  const { rows: before } = await ledgerOf(store)
  t.equal(before, 0)
  const answers: string[][] = []
  for (let round = 0; round < races / together; round++) {
    const bids = Array.from({ length: together }, (_, n) => `${t.name}-${round}-${n}`)
    const won = bids.map((id) => ({ id, svcOpd: auction(one.engine, { id }).svcOpd }))
    // Bids are written in order.
    await decided(won.at(-1)!.id)
    answers.push(
      ...(await Promise.all(
        won.map(async ({ id, svcOpd }) => {
          const bare = { bid_id: id, price: '0.9' }
          const full = { ...bare, svc_opd: svcOpd }
          const sent = [
            two.notify(bare, null),
            one.notify(full, null),
            two.notify({ ...bare, ssp: 'acme' }, null),
          ]
          return (await Promise.all(sent)).map(({ body }) => String(body['status']))
        }),
      )),
    )
  }
  const { rows, attributed, bids, margin } = await ledgerOf(store)
  t.same(
    { rows, attributed, bids, margin },
    { rows: races, attributed: races, bids: races, margin: 40 },
  )
  const counted = (status: string) =>
    answers.map((each) => each.filter((one) => one === status).length)
  t.same(
    counted('attributed').filter((times) => times !== 1),
    [],
    'each is answered attributed once',
  )
  t.ok(
    counted('unattributed').every((times) => times <= 1),
    'and unattributed at most once',
  )
}

async function ledgerOf(store: Store) {
  const rows = await store.db.selectFrom(ledgerTable(store.postgres)).selectAll().execute()
  return {
    rows: rows.length,
    attributed: rows.filter(({ status }) => status === 'attributed').length,
    bids: new Set(rows.map(({ bid_id }) => bid_id)).size,
    margin: Math.round(rows.reduce((sum, { margin }) => sum + Number(margin), 0) * 1e6) / 1e6,
  }
}

t.test('SQLite', async (t) => {
  const store = await storeAt(t, { url: `sqlite:${newFolder()}/b.db` })
  await race(t, await nodeOn(t, store), await nodeOn(t, store), store)
})

t.test('PostgreSQL', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()])
  t.teardown(() => Promise.all([postgres.close(), redis.stop()]))

  /** Two nodes with pools of their own on an empty ledger. */
  async function pair(t: Test, shared?: Redis) {
    const stores = [await storeAt(t, postgres), await storeAt(t, postgres)] as const
    await stores[0].db.deleteFrom(ledgerTable(true)).execute()
    const [one, two] = [await nodeOn(t, stores[0], shared), await nodeOn(t, stores[1], shared)]
    return { one, two, store: stores[0] }
  }

  t.test('no Redis', async (t) => {
    const { one, two, store } = await pair(t)
    await race(t, one, two, store)
  })

  t.test('Redis, the notices as soon as the bid is answered', async (t) => {
    const { one, two, store } = await pair(t, redis)
    await race(t, one, two, store)
  })

  t.test('Redis, the notices when the shared log has the bid', async (t) => {
    const { one, two, store } = await pair(t, redis)
    await race(t, one, two, store, async (id) => {
      await until(() => redis.holds(id))
    })
  })

  t.test('Redis that does not answer', async (t) => {
    const { one, two, store } = await pair(t, redis)
    redis.hang()
    await race(t, one, two, store)
    redis.resume()
  })

  t.test('Redis that is away', async (t) => {
    const { one, two, store } = await pair(t, redis)
    await redis.stop()
    await race(t, one, two, store)
    await redis.start()
  })
})
