/** bidweir with one store, as a process of its own, and what stands around it. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { postgresAbsent, startPostgres } from '../../test/support/postgres.ts'
import { redisAbsent, startRedis } from '../../test/support/redis.ts'
import { cpu, tree } from '../proxy/process.ts'

const main = fileURLToPath(new URL('../../main.ts', import.meta.url))
const password = randomBytes(12).toString('hex')

export interface Stand {
  proxyPort: number
  adminPort: number
  token: string
  /** CPU microseconds of the service so far, all threads. */
  cpu(): number
  /** Wins in the ledger. */
  rows(): Promise<number>
  stop(): Promise<void>
}

interface Backing {
  store: string
  rows(): Promise<number>
  close(): Promise<void>
}

const count = "select count(*) as n from ledger where status = 'attributed'"

const backings: Readonly<
  Record<string, { absent: string | false; open: (folder: string) => Promise<Backing> }>
> = {
  SQLite: {
    absent: false,
    async open(folder) {
      const file = join(folder, 'a.db')
      return {
        store: `{database: "sqlite:${file}"}`,
        async rows() {
          const database = new DatabaseSync(file, { readOnly: true })
          const { n } = database.prepare(count).get() as { n: number }
          database.close()
          return n
        },
        close: async () => {},
      }
    },
  },
  PostgreSQL: { absent: postgresAbsent, open: () => postgres(null) },
  'PostgreSQL and Redis': {
    absent: postgresAbsent || redisAbsent,
    open: async () => postgres(await startRedis()),
  },
}
export const stores = Object.entries(backings).map(([name, { absent }]) => ({ name, absent }))

async function postgres(redis: { url: string; stop(): Promise<void> } | null): Promise<Backing> {
  const server = await startPostgres()
  return {
    store: `{database: "${server.url}"${redis === null ? '' : `, redis: "${redis.url}"`}}`,
    async rows() {
      const client = new pg.Client({ connectionString: server.url })
      await client.connect()
      const { rows } = await client.query<{ n: string }>(count)
      await client.end()
      return Number(rows[0]!.n)
    },
    async close() {
      await redis?.stop()
      await server.close()
    },
  }
}

const yaml = (store: string, endpoint: string) => `
proxy: {listen: "127.0.0.1:0"}
admin:
  listen: "127.0.0.1:0"
  auth: {embedded: {adminPassword: "${password}"}}
  impressions: {auth: context}
store: ${store}
opd: {keys: [{id: 1, secret: "${randomBytes(32).toString('base64url')}"}]}
drain: {grace: 0ms, timeout: 20s}
log: {level: warn}
suppliers:
  - {id: bench, endpoints: ["${endpoint}"], timeout: 5s, opd: {enabled: true}}
`

async function logIn(port: number): Promise<string> {
  const form = { client_id: 'public-client', grant_type: 'password', username: 'admin', password }
  const answer = await fetch(
    `http://127.0.0.1:${port}/auth/realms/main/protocol/openid-connect/token`,
    { method: 'POST', body: new URLSearchParams(form) },
  )
  return ((await answer.json()) as { access_token: string }).access_token
}

export async function stand(name: string, profile: string | undefined): Promise<Stand> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-bench-'))
  const backing = await backings[name]!.open(folder)
  const origin: ChildProcess = fork(new URL('../proxy/origin.ts', import.meta.url))
  const [{ port }] = (await once(origin, 'message')) as [{ port: number }]
  writeFileSync(
    join(folder, 'bidweir.yaml'),
    yaml(backing.store, `http://127.0.0.1:${port}/?kind=bid`),
  )
  const flags = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  const child = spawn(process.execPath, [...flags, main, 'start', '--config', 'bidweir.yaml'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  while (!/^admin .*\n/m.test(text)) text += String((await once(child.stdout!, 'data'))[0])
  const portOf = (what: string) => Number(new RegExp(`^${what} .*?:(\\d+)/`, 'm').exec(text)![1])
  const adminPort = portOf('admin')
  return {
    proxyPort: portOf('bid traffic'),
    adminPort,
    token: await logIn(adminPort),
    cpu: () => cpu(tree(child.pid!)),
    rows: backing.rows,
    async stop() {
      child.kill('SIGINT')
      await once(child, 'exit')
      origin.kill()
      await backing.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
