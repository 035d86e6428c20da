/** One win is one row, in any order of notices and any state of Redis: on one node, and with two nodes on one PostgreSQL. */
import t, { type Test } from 'tap'
import type { Store } from '../../../admin/store/index.ts'
import { ledgerTable } from '../../../admin/store/tables.ts'
import { RedisState } from '../../../opd/state/redis.ts'
import { auction, hour } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { newFolder } from '../../support/process.ts'
import { type Redis, redisAbsent, startRedis } from '../../support/redis.ts'
import { silent, storeAt } from '../../support/store.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

type ImpressionsApi = Awaited<ReturnType<typeof impressionsApi>>

/** A node with a memory of its own. */
async function nodeOn(t: Test, store: Store, url?: string) {
  const integrations = [integration('acme')]
  const options = { auth: 'none', store: store.ledger, integrations } as const
  if (url === undefined) return impressionsApi(t, options)
  const state = new RedisState({
    url,
    location: 'here',
    bidTtl: () => 48 * hour,
    log: silent,
    onNodes: () => {},
  })
  t.teardown(() => state.close())
  await until(() => state.connected)
  return impressionsApi(t, { ...options, shared: state.shared })
}

const races = 60
/** Wins that are reported at the same time. */
const together = 20

/** `one` decides; the same win is reported to it with the context, and at once to the other without. */
async function race(
  t: Test,
  one: ImpressionsApi,
  two: ImpressionsApi,
  store: Store,
  decided: (id: string) => Promise<void> | undefined,
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
    { rows: races, attributed: races, bids: races, margin: races / 10 },
  )
  const counted = (status: string) =>
    answers.map((list) => list.filter((one) => one === status).length)
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

/** The state of Redis while the notices arrive. */
interface Mode {
  /** Its address for the nodes; absent: Redis is not configured. */
  url?: (t: Test, redis: Redis) => Promise<string>
  /** After the nodes have connected. */
  begin?: (redis: Redis) => unknown
  /** After the bids of a round, before their notices. */
  decided?: (redis: Redis, id: string) => Promise<void>
  end?: (redis: Redis) => unknown
}

const direct = { url: async (_t: Test, redis: Redis) => redis.url }
/** Milliseconds in each direction. */
const delay = 100

const modes: Readonly<Record<string, Mode>> = {
  'no Redis': {},
  'Redis, the notices as soon as the bid is answered': direct,
  'Redis, the notices when the shared log has the bid': {
    ...direct,
    decided: async (redis, id) => void (await until(() => redis.holds(id))),
  },
  'Redis that is slow': {
    async url(t, redis) {
      const link = await tcpProxy(Number(new URL(redis.url).port), delay)
      t.teardown(() => link.close())
      return `redis://127.0.0.1:${link.port}`
    },
  },
  'Redis that does not answer': {
    ...direct,
    begin: (redis) => redis.hang(),
    end: (redis) => redis.resume(),
  },
  'Redis that loses its keys and connections after the bids': {
    ...direct,
    async decided(redis) {
      await redis.stop()
      await redis.start()
    },
  },
  'Redis that is away': {
    ...direct,
    begin: (redis) => redis.stop(),
    end: (redis) => redis.start(),
  },
}

function eachMode(
  t: Test,
  redis: Redis,
  place: string,
  storesOf: (t: Test) => Promise<[Store, ...Store[]]>,
): void {
  for (const [name, { url, begin, decided, end }] of Object.entries(modes))
    t.test(`${place}: ${name}`, async (t) => {
      const shared = await url?.(t, redis)
      const stores = await storesOf(t)
      const nodes: ImpressionsApi[] = []
      for (const store of stores) nodes.push(await nodeOn(t, store, shared))
      await begin?.(redis)
      await race(t, nodes[0]!, nodes.at(-1)!, stores[0], (id) => decided?.(redis, id))
      await end?.(redis)
    })
}

t.test('SQLite', { skip: redisAbsent }, async (t) => {
  const redis = await startRedis()
  t.teardown(() => redis.stop())
  const open = (t: Test) => storeAt(t, { url: `sqlite:${newFolder()}/b.db` })
  eachMode(t, redis, 'one node', async (t) => [await open(t)])
  t.test('two engines on one store', async (t) => {
    const store = await open(t)
    await race(t, await nodeOn(t, store), await nodeOn(t, store), store, () => undefined)
  })
})

t.test('PostgreSQL', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()])
  t.teardown(() => Promise.all([postgres.close(), redis.stop()]))
  /** Pools of two nodes on an empty ledger. */
  eachMode(t, redis, 'two nodes', async (t) => {
    const stores: [Store, Store] = [await storeAt(t, postgres), await storeAt(t, postgres)]
    await stores[0].db.deleteFrom(ledgerTable(true)).execute()
    return stores
  })
})
