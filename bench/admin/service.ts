/** bidweir with one store, and what runs around it. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { postgresAbsent, startPostgres } from '../../test/support/postgres.ts'
import { redisAbsent, startRedis } from '../../test/support/redis.ts'
import { type Service, startOrigin, startService, supplier } from '../harness/service.ts'

export const password = randomBytes(12).toString('hex')

export interface Loaded extends Service {
  token: string
  /** Wins in the ledger. */
  rows(): Promise<number>
  /** Of the database. */
  bytes(): Promise<number>
}

interface Backing {
  store: { database: string; redis?: string }
  rows(): Promise<number>
  bytes(): Promise<number>
  close(): Promise<void>
}

const count = "select count(*) as n from ledger where status = 'attributed'"

async function sqlite(): Promise<Backing> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-bench-'))
  const file = join(folder, 'a.db')
  async function read(sql: string) {
    const database = new DatabaseSync(file, { readOnly: true })
    const { n } = database.prepare(sql).get() as { n: number }
    database.close()
    return n
  }
  return {
    store: { database: `sqlite:${file}` },
    rows: () => read(count),
    bytes: () =>
      read('select page_count * page_size as n from pragma_page_count, pragma_page_size'),
    close: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

async function postgres(withRedis: boolean): Promise<Backing> {
  const server = await startPostgres()
  const redis = withRedis ? await startRedis() : null
  async function read(sql: string) {
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    const { rows } = await client.query<{ n: string }>(sql)
    await client.end()
    return Number(rows[0]!.n)
  }
  return {
    store: { database: server.url, ...(redis !== null && { redis: redis.url }) },
    rows: () => read(count),
    bytes: () => read('select pg_database_size(current_database()) as n'),
    async close() {
      await redis?.stop()
      await server.close()
    },
  }
}

export const stores: Readonly<
  Record<string, { absent: string | false; open: () => Promise<Backing> }>
> = {
  SQLite: { absent: false, open: sqlite },
  PostgreSQL: { absent: postgresAbsent, open: () => postgres(false) },
  'PostgreSQL and Redis': { absent: postgresAbsent || redisAbsent, open: () => postgres(true) },
}

export async function logIn(port: number): Promise<string> {
  const form = { client_id: 'public-client', grant_type: 'password', username: 'admin', password }
  const response = await fetch(
    `http://127.0.0.1:${port}/auth/realms/main/protocol/openid-connect/token`,
    { method: 'POST', body: new URLSearchParams(form) },
  )
  return ((await response.json()) as { access_token: string }).access_token
}

export async function startLoaded(name: string, profile: string): Promise<Loaded> {
  const backing = await stores[name]!.open()
  const origin = await startOrigin()
  const service = await startService(
    {
      admin: {
        listen: '127.0.0.1:0',
        auth: { embedded: { adminPassword: password } },
        impressions: { auth: 'context' },
      },
      store: backing.store,
      suppliers: [supplier('bench', `${origin.url}?kind=bid`)],
    },
    profile === '' ? {} : { profile },
  )
  return {
    ...service,
    token: await logIn(service.admin),
    rows: backing.rows,
    bytes: backing.bytes,
    async stop() {
      await Promise.all([service.stop(), origin.close()])
      await backing.close()
    },
  }
}
