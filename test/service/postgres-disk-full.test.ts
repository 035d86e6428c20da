/** A PostgreSQL that can change rows and store none: a win and the readiness of the admin listener fail until there is room. */
import { execFileSync, spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { asPostgres, postgresAbsent, startPostgres } from '../support/postgres.ts'
import { serveNode } from '../support/served-node.ts'
import { type Answered, echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const skip =
  postgresAbsent || (spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit not found')
const key = Buffer.alloc(32, 7).toString('base64url')

t.test('a PostgreSQL whose disk is full', { skip }, async (t) => {
  const [supplier, database] = await Promise.all([echoSupplier(), startPostgres()])
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
  })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  t.teardown(async () => {
    await Promise.all([node.stop(), client.end()])
    await Promise.all([supplier.close(), database.close()])
  })
  const ready = async (path: string) => (await fetch(`${node.admin}${path}`)).status
  const storeUp = async () => (await node.metrics()).get('bidweir_store_up')
  let bids = 0
  const win = async () => {
    const bid = await node.bid({ id: `b${bids++}` })
    const { id, price, svcOpd } = bid
    const answer = await node.notify({ bid_id: id, price: String(price), svc_opd: svcOpd })
    return { bid, http: answer.http }
  }
  t.equal((await win()).http, 200)
  t.equal(await ready('/readyz/admin'), 200)

  const limitFiles = (bytes: string) => {
    for (const pid of database.pids())
      execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`], asPostgres())
  }
  // More than a segment of the log has, which can then still be written; no page has room for a win.
  await client.query(`insert into ledger_days
    (decision, event, bid_id, status, cleared, late, "over", reason, at, day)
    select 'filler ' || n, 'win', '', 'rejected', 0, 0, 0, null, 0,
      (select max(day) from ledger_days) from generate_series(1, 20000) as n`)
  await client.query('checkpoint')
  const { rows } = await client.query<{ path: string }>(
    `select pg_relation_filepath(tableoid) as path from ledger_days where decision = 'filler 1'`,
  )
  const { rows: folders } = await client.query<{ data_directory: string }>('show data_directory')
  const { size } = statSync(join(folders[0]!.data_directory, rows[0]!.path))
  // No file of PostgreSQL may become longer than that of the ledger.
  limitFiles(String(size))

  let refused: Answered | null = null
  await until(async () => {
    const { bid, http } = await win()
    if (http !== 200) refused = bid
    return http === 503
  })
  t.equal(await ready('/readyz/admin'), 503)
  t.equal(await ready('/readyz'), 200)
  await until(async () => (await storeUp()) === 0)
  t.match(node.bidweir.stderr(), /"part":"wins".*could not extend file/)

  limitFiles('unlimited')
  await until(async () => (await ready('/readyz/admin')) === 200, { what: 'the store is back' })
  await until(async () => (await storeUp()) === 1)
  const { id, price, svcOpd } = refused!
  const again = await node.notify({ bid_id: id, price: String(price), svc_opd: svcOpd })
  t.match(again.body, { status: 'attributed' })
  const left = await client.query(`select 1 from ledger_days where status = 'probe'`)
  t.equal(left.rowCount, 0)
})
