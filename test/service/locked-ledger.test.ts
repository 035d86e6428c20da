/** A locked ledger delays wins alone: API, log-ins and the poll for changes have their own connections. */
import pg from 'pg'
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { token } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 7).toString('base64url')

t.test('a locked ledger', { skip: postgresAbsent }, async (t) => {
  const database = await startPostgres()
  t.teardown(() => database.close())
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const node = await serveNode({
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    endpoint: supplier.url,
    more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
  })
  t.teardown(() => node.stop())
  const won = await node.bids(Array.from({ length: 30 }, (_each, n) => ({ id: `b${n}` })))
  const notify = (index: number) => {
    const { id, price, svcOpd } = won[index]!
    return node.notify({ bid_id: id, price: String(price), svc_opd: svcOpd })
  }
  t.equal((await notify(0)).http, 200)
  const json = { 'content-type': 'application/json' }
  const seats = [{ name: 'lead', name_external: 'lead', is_active: true, qps: [] }]
  const edit = (method: string, dsp_seats: object[]) =>
    node.api('/api/svc/ssp/acme/', { method, headers: json, body: JSON.stringify({ dsp_seats }) })
  t.equal((await edit('POST', seats)).status, 201)

  const other = new pg.Client({ connectionString: database.url })
  await other.connect()
  t.teardown(() => other.end())
  await other.query('begin')
  await other.query('lock table ledger_days')
  const answers = won.slice(1).map((_each, index) => notify(index + 1))
  let refused = 0
  for (const answer of answers) void answer.then(() => refused++)
  await until(async () => {
    const { rows } = await other.query<{ n: number }>(
      "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'",
    )
    return rows[0]!.n > 0
  })
  const probe = fetch(`${node.admin}/readyz/admin`)
  t.type(await token(node.bidweir), 'string')
  let active = true
  await until(async () => {
    active = !active
    const put = await edit('PUT', [{ name: 'lead', is_active: active }])
    t.equal(put.status, 200)
    t.equal((await node.api('/api/svc/ssp/acme/')).status, 200)
    return refused === answers.length
  })
  for (const { http, headers, body } of await Promise.all(answers)) {
    t.equal(http, 503)
    t.match(headers.get('retry-after'), /^\d+$/)
    t.match(body, { code: 'store_unavailable' })
  }
  const ready = await probe
  t.equal(ready.status, 503)
  const body = await ready.text()
  t.match(JSON.parse(body), { code: 'store_unavailable', title: 'not ready: wins' })
  t.notMatch(body, /127\.0\.0\.1|postgres|timeout/, 'callers without a token see no more')
  t.match(node.bidweir.stderr(), /"part":"wins","err":/, 'the log is')

  await other.query('rollback')
  await until(async () => (await fetch(`${node.admin}/readyz/admin`)).status === 200)
  for (const index of won.keys())
    t.match((await notify(index)).body, { status: index === 0 ? 'duplicate' : 'attributed' })
})
