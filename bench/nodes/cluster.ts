/** Nodes of bidweir on one PostgreSQL and one Redis, and what both count. */
import { createClient } from '@redis/client'
import pg from 'pg'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { logIn, password } from '../admin/service.ts'
import { type Service, startService, supplier } from '../harness/service.ts'

/** Sums since the start. */
export interface StoreCounts {
  redisCommands: number
  redisUs: number
  redisBytesIn: number
  commits: number
  walBytes: number
}

/** What is kept now. */
interface Kept {
  /** Bytes of Redis, without models and connections. */
  redisBytes: number
  /** Bids in Redis. */
  bids: number
  wins: number
  /** Of the ledger with its indexes. */
  ledgerBytes: number
}

export interface Cluster {
  nodes: readonly Service[]
  /** Accepted by every node, for some minutes. */
  token(): Promise<string>
  stores(): Promise<StoreCounts>
  kept(): Promise<Kept>
  stop(): Promise<void>
}

export async function startCluster(count: number, endpoint: string): Promise<Cluster> {
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const config = {
    admin: {
      listen: '127.0.0.1:0',
      auth: { embedded: { adminPassword: password } },
      impressions: { auth: 'context' },
    },
    store: { database: postgres.url, redis: redis.url },
    suppliers: [supplier('bench', endpoint)],
  }
  // The first one makes the user.
  const nodes = [await startService(config)]
  for (let n = 1; n < count; n++) nodes.push(await startService(config))
  const client = await createClient({ url: redis.url }).connect()
  const database = new pg.Client({ connectionString: postgres.url })
  await database.connect()
  async function redisInfo() {
    const info = await client.info()
    return (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  }
  return {
    nodes,
    token: () => logIn(nodes[0]!.admin),
    async kept() {
      const of = await redisInfo()
      let [others, bids] = [0, 0]
      for await (const keys of client.scanIterator({ COUNT: 1000 }))
        for (const key of keys)
          if (key.startsWith('bidweir:bid:')) bids++
          else others += (await client.memoryUsage(key, { SAMPLES: 0 })) ?? 0
      const { rows } = await database.query<Record<'wins' | 'bytes', string>>(
        `select (select count(*) from ledger_days) as wins, sum(pg_total_relation_size(inhrelid)) as bytes
          from pg_inherits where inhparent = 'ledger_days'::regclass`,
      )
      return {
        redisBytes: of('used_memory') - of('mem_clients_normal') - others,
        bids,
        wins: Number(rows[0]!.wins),
        ledgerBytes: Number(rows[0]!.bytes),
      }
    },
    async stores() {
      const of = await redisInfo()
      const { rows } = await database.query<Record<'commits' | 'wal', string>>(
        `select xact_commit as commits, wal_bytes as wal from pg_stat_wal, pg_stat_database
          where datname = current_database()`,
      )
      return {
        redisCommands: of('total_commands_processed'),
        redisUs: 1e6 * (of('used_cpu_sys') + of('used_cpu_user')),
        redisBytesIn: of('total_net_input_bytes'),
        commits: Number(rows[0]!.commits),
        walBytes: Number(rows[0]!.wal),
      }
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()))
      client.destroy()
      await database.end()
      await Promise.all([redis.stop(), postgres.close()])
    },
  }
}
