/** A cluster of bidweir nodes with a supplier and a store of its own, and what bids and wins cost nodes and store. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from '@redis/client'
import pg from 'pg'
import { postgresAbsent, startPostgres } from '../../test/support/postgres.ts'
import { redisAbsent, startRedis } from '../../test/support/redis.ts'
import { newFolder } from './child.ts'
import { type Caller, logIn, type Service, startOrigin, startService, supplier } from './service.ts'

/** Of the nodes and the store: sums since the start, of a second, or of one bid or win. */
export interface Cost {
  /** Microseconds. */
  cpu: number
  redisCommands: number
  redisUs: number
  redisBytesIn: number
  /** Of PostgreSQL. */
  commits: number
  walBytes: number
}
type StoreCost = Omit<Cost, 'cpu'>

/** What the stores contain now. */
interface Kept {
  wins: number
  /** Of the ledger with its indexes, or of a whole SQLite. */
  bytes: number
  /** In Redis, and its bytes without models and connections. */
  bids: number
  redisBytes: number
}

interface Store extends AsyncDisposable {
  config: { database: string; redis?: string }
  cost(): Promise<StoreCost>
  kept(): Promise<Kept>
}

const noRedis = {
  cost: { redisCommands: 0, redisUs: 0, redisBytesIn: 0 },
  kept: { bids: 0, redisBytes: 0 },
}

async function openSqlite(): Promise<Store> {
  const folder = newFolder()
  const file = join(folder.path, 'a.db')
  return {
    config: { database: `sqlite:${file}` },
    cost: async () => ({ ...noRedis.cost, commits: Number.NaN, walBytes: Number.NaN }),
    async kept() {
      using database = new DatabaseSync(file, { readOnly: true })
      const kept = database
        .prepare(`select count(*) as wins, (select page_count * page_size
          from pragma_page_count, pragma_page_size) as bytes from ledger where status = 'attributed'`)
        .get() as { wins: number; bytes: number }
      return { ...noRedis.kept, ...kept }
    },
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]()
    },
  }
}

async function openRedis() {
  const server = await startRedis()
  const client = await createClient({ url: server.url }).connect()
  async function readInfo() {
    const info = await client.info()
    return (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  }
  return {
    url: server.url,
    async cost() {
      const info = await readInfo()
      return {
        redisCommands: info('total_commands_processed'),
        redisUs: 1e6 * (info('used_cpu_sys') + info('used_cpu_user')),
        redisBytesIn: info('total_net_input_bytes'),
      }
    },
    async kept() {
      const info = await readInfo()
      let [others, bids] = [0, 0]
      for await (const keys of client.scanIterator({ COUNT: 1000 }))
        for (const key of keys)
          if (key.startsWith('bidweir:bid:')) bids++
          else others += (await client.memoryUsage(key, { SAMPLES: 0 })) ?? 0
      return { bids, redisBytes: info('used_memory') - info('mem_clients_normal') - others }
    },
    async [Symbol.asyncDispose]() {
      client.destroy()
      await server.stop()
    },
  }
}

async function openPostgres(withRedis: boolean): Promise<Store> {
  await using stack = new AsyncDisposableStack()
  const server = await startPostgres()
  stack.defer(() => server.close())
  const database = new pg.Client({ connectionString: server.url })
  await database.connect()
  stack.defer(() => database.end())
  const redis = withRedis ? stack.use(await openRedis()) : null
  async function read<Name extends string>(sql: string) {
    const { rows } = await database.query<Record<Name, string>>(sql)
    return rows[0]!
  }
  const held = stack.move()
  return {
    config: { database: server.url, ...(redis !== null && { redis: redis.url }) },
    async cost() {
      const { commits, wal } = await read<'commits' | 'wal'>(
        `select xact_commit as commits, wal_bytes as wal from pg_stat_wal, pg_stat_database
          where datname = current_database()`,
      )
      const ofRedis = (await redis?.cost()) ?? noRedis.cost
      return { ...ofRedis, commits: Number(commits), walBytes: Number(wal) }
    },
    async kept() {
      const { wins, bytes } = await read<'wins' | 'bytes'>(
        `select (select count(*) from ledger_days where status = 'attributed') as wins,
          sum(pg_total_relation_size(inhrelid)) as bytes
          from pg_inherits where inhparent = 'ledger_days'::regclass`,
      )
      const ofRedis = (await redis?.kept()) ?? noRedis.kept
      return { ...ofRedis, wins: Number(wins), bytes: Number(bytes) }
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

export const stores = {
  SQLite: { absent: false as string | false, open: openSqlite },
  PostgreSQL: { absent: postgresAbsent, open: () => openPostgres(false) },
  'PostgreSQL and Redis': { absent: postgresAbsent || redisAbsent, open: () => openPostgres(true) },
}
export type StoreName = keyof typeof stores

const password = randomBytes(12).toString('hex')

export interface Cluster extends AsyncDisposable, Pick<Store, 'kept'> {
  nodes: readonly Service[]
  /** Accepted by every node, for some minutes. */
  token(): Promise<string>
  cost(): Promise<Cost>
}

/** Its supplier `bench` bids on everything. */
export async function startCluster(name: StoreName, count = 1, profile = ''): Promise<Cluster> {
  await using stack = new AsyncDisposableStack()
  const store = stack.use(await stores[name].open())
  const origin = stack.use(await startOrigin())
  const config = {
    admin: {
      listen: '127.0.0.1:0',
      auth: { embedded: { adminPassword: password } },
      impressions: { auth: 'context' },
    },
    store: store.config,
    suppliers: [supplier('bench', `${origin.url}?kind=bid`)],
  }
  // One after the other: the first one makes the user.
  const nodes: Service[] = []
  while (nodes.length < count) nodes.push(stack.use(await startService(config, { profile })))
  const held = stack.move()
  return {
    nodes,
    token: () => logIn(nodes[0]!.admin, password),
    kept: store.kept,
    async cost() {
      const ofStore = await store.cost()
      return { ...ofStore, cpu: nodes.reduce((sum, node) => sum + node.cpu(), 0) }
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

/** A cost whose figures are made from those of another one. */
export const costFrom = (cost: Cost, value: (name: keyof Cost) => number) =>
  Object.fromEntries(
    (Object.keys(cost) as (keyof Cost)[]).map((name) => [name, value(name)]),
  ) as unknown as Cost

/** The cost of `work`, and its result. */
export async function windowOf<T>(cluster: Cluster, work: () => Promise<T>) {
  const [before, began] = [await cluster.cost(), performance.now()]
  const result = await work()
  // Batches are written by then.
  await wait(200)
  const seconds = (performance.now() - began) / 1000
  const after = await cluster.cost()
  return { cost: costFrom(after, (name) => after[name] - before[name]), seconds, result }
}

/** Lets a caller ask for prices until it has `most` contexts. */
export async function mint(caller: Caller, port: number, token: string, most: number) {
  const job = { what: 'prices', bids: 100, connections: 4, rate: 0, warm: 0, measure: 500 } as const
  for (let left = 0; left < most; ) {
    const made = await caller.ask({ ...job, port, token, most })
    if (made.fault !== '') throw new Error(`no prices: ${made.fault}`)
    left = made.left
  }
}
