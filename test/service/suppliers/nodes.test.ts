/** Suppliers of the API on whole nodes: under load, after `kill -9`, and where a secret is missing (CONTRACT 14). */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { suppliersOf } from '../../support/api-suppliers.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { newFolder } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier, startNode, sumOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

/** Sends bid requests until it is stopped; `lost` are the statuses of requests without an answer of the supplier. */
function traffic(port: number, ssp: string, extra: () => Record<string, string> = () => ({})) {
  const lost: string[] = []
  let answered = 0
  let open = true
  const caller = async () => {
    while (open) {
      const response = await fetch(`http://127.0.0.1:${port}/bid/${ssp}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...extra() },
        body: '{"id":"q","imp":[{"id":"1"}],"ext":{"bids":[]}}',
      })
      await response.text()
      const reason = response.headers.get('x-bidweir-reason')
      // A busy machine delays the event loop of a node, which then refuses.
      if (response.status === 200) answered++
      else if (reason !== 'overload') lost.push(`${response.status} ${reason}`)
    }
  }
  const callers = Array.from({ length: 4 }, caller)
  return {
    lost,
    answered: () => answered,
    async stop() {
      open = false
      await Promise.all(callers)
    },
  }
}

t.test(
  'two nodes, one with two processes, act on changes of both under load and lose no request',
  { skip: postgresAbsent || redisAbsent },
  async (t) => {
    const supplier = await echoSupplier()
    const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
    const options = {
      endpoint: supplier.url,
      more: `store: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: filed, opd: {enabled: true}'],
    }
    const one = await startNode(options)
    const two = await startNode({ ...options, workers: 2 })
    t.teardown(async () => {
      await Promise.all([one.stop(), two.stop()])
      await Promise.all([supplier.close(), redis.stop(), postgres.close()])
    })
    // The second node has the user of the first.
    const [atOne, atTwo] = [
      suppliersOf(one),
      suppliersOf({ bidweir: two.bidweir, api: (path, init) => apiWith(two.admin, path, init) }),
    ]
    const authorization = `Bearer ${await one.login()}`
    function apiWith(admin: string, path: string, init: RequestInit = {}) {
      const headers = { ...(init.headers as Record<string, string>), authorization }
      return fetch(admin + path, { ...init, headers })
    }
    const block = (id: string) => ({ id, endpoints: [supplier.url], timeout: '20s', opd: {} })
    /** Whether every process of both nodes answers so: each request is on a connection of its own. */
    const everywhere = async (id: string, status: number) => {
      for (const { bidweir } of [one, two])
        for (let n = 0; n < 6; n++) {
          const response = await fetch(`http://127.0.0.1:${bidweir.proxyPort}/bid/${id}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', connection: 'close' },
            body: '{"id":"q","imp":[{"id":"1"}],"ext":{"bids":[]}}',
          })
          await response.text()
          if (response.status !== status) return false
        }
      return true
    }
    t.equal((await atOne.call('POST', '', block('acme'))).status, 201)
    await until(() => everywhere('acme', 200))
    const load = [
      traffic(one.bidweir.proxyPort, 'acme'),
      traffic(two.bidweir.proxyPort, 'acme', () => ({ connection: 'close' })),
      traffic(two.bidweir.proxyPort, 'filed'),
    ]
    const took: number[] = []
    for (let n = 0; n < 12; n++) {
      const target = n % 2 === 0 ? atOne : atTwo
      const changed = await target.change('PATCH', 'acme', { timeout: `${10 + n}s`, name: `n${n}` })
      t.equal(changed.status, 200, JSON.stringify(changed.body))
      const id = `s${n}`
      t.equal((await target.call('POST', '', block(id))).status, 201)
      took.push(await until(() => everywhere(id, 200)))
      t.equal((await target.change('DELETE', id)).status, 204)
      took.push(await until(() => everywhere(id, 404)))
    }
    for (const { lost, answered, stop } of load) {
      await stop()
      t.same(lost, [])
      t.ok(answered() > 20, `${answered()} answers`)
    }
    // The median, since a busy machine may stop any one of them.
    const median = took.sort((one, other) => one - other)[took.length >> 1]!
    t.ok(median < 2000, `in effect after ${median.toFixed()} ms (median)`)
    // The counters of a supplier go on over its changes, as what was learned does.
    const counted = sumOf(await one.metrics(), 'bidweir_requests_total', 'ssp="acme"')
    t.ok(counted >= load[0]!.answered(), `${counted} counted`)
    const concurrent = await Promise.all(
      [atOne, atTwo, atOne, atTwo].map(async (target, n) =>
        target.call('PATCH', 'acme/', { name: `c${n}` }, { 'if-match': '"13"' }),
      ),
    )
    t.same(concurrent.map(({ status }) => status).sort(), [200, 412, 412, 412])
    const versions = (await atOne.call('GET', 'acme/history/?limit=100')).body
    t.same(
      versions.map(({ version }: { version: number }) => version),
      Array.from({ length: 14 }, (_, n) => 14 - n),
      'one version for each change, none lost',
    )
  },
)

t.test('an acknowledged change survives kill -9', async (t) => {
  const supplier = await echoSupplier()
  const options = { endpoint: supplier.url, suppliers: ['id: filed'] }
  const first = await startNode(options)
  t.teardown(() => supplier.close())
  const { call } = suppliersOf(first)
  const block = { id: 'acme', endpoints: [supplier.url], timeout: '20s' }
  t.equal((await call('POST', '', block)).status, 201)
  await first.stop('SIGKILL')
  const second = await startNode({ ...options, folder: first.folder })
  t.teardown(() => second.stop())
  const again = suppliersOf(second)
  t.equal(await again.bid('acme'), 200)
  t.match((await again.call('GET', 'acme/')).body, { ...block, version: 1 })
})

t.test(
  'a node without the secret of a version keeps the version before, and says so',
  { skip: postgresAbsent },
  async (t) => {
    const supplier = await echoSupplier()
    const postgres = await startPostgres()
    const start = () =>
      serveNode({
        endpoint: supplier.url,
        more: `store: {database: "${postgres.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
        suppliers: ['id: filed'],
        folder: newFolder(),
      })
    const one = await start()
    const two = await start()
    t.teardown(async () => {
      await Promise.all([one.stop(), two.stop()])
      await Promise.all([supplier.close(), postgres.close()])
    })
    const [atOne, atTwo] = [suppliersOf(one), suppliersOf(two)]
    mkdirSync(join(one.folder, 'secrets'))
    writeFileSync(join(one.folder, 'secrets/key'), 'open\n')
    const block = { id: 'acme', endpoints: [supplier.url], timeout: '20s' }
    t.equal((await atOne.call('POST', '', block)).status, 201)
    await until(async () => (await atTwo.bid('acme')) === 200)
    // A relative path is relative to the configuration file of each node.
    const callers = { headers: { 'x-key': { file: 'secrets/key' } } }
    t.equal((await atOne.change('PATCH', 'acme', { callers })).status, 200)
    t.equal(await atOne.bid('acme'), 403)
    const refused = async () => (await two.metrics()).get('bidweir_suppliers_refused')
    await until(async () => (await refused()) === 1)
    t.equal(await atTwo.bid('acme'), 200, 'the version before')
    t.match(two.bidweir.stderr(), /cannot be used on this node.*callers\.headers\.x-key/)
    mkdirSync(join(two.folder, 'secrets'))
    writeFileSync(join(two.folder, 'secrets/key'), 'open\n')
    await until(async () => (await atTwo.bid('acme')) === 403)
    t.equal(await refused(), 0, 'when the file is there')
    const withKey = async (value: string) => {
      const response = await fetch(`http://127.0.0.1:${one.bidweir.proxyPort}/bid/acme`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-key': value },
        body: '{"id":"q","imp":[{"id":"1"}],"ext":{"bids":[]}}',
      })
      await response.text()
      return response.status
    }
    t.equal(await withKey('open'), 200)
    rmSync(join(one.folder, 'secrets/key'))
    writeFileSync(join(one.folder, 'secrets/key'), 'sesame\n')
    await until(async () => (await withKey('sesame')) === 200)
    t.equal(await withKey('open'), 403, 'a file is followed')
  },
)
