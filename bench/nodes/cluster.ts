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

export interface Cluster {
  nodes: readonly Service[]
  /** Accepted by every node, for some minutes. */
  token(): Promise<string>
  stores(): Promise<StoreCounts>
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
  return {
    nodes,
    token: () => logIn(nodes[0]!.admin),
    async stores() {
      const info = await client.info()
      const of = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
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
