/** The access log of bid requests: which requests have a line, what is in it, and what it never does to them. */
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { AccessLog, accessLogSchema } from '../../proxy/access-log.ts'
import { proxySchema } from '../../proxy/config.ts'
import { newFolder } from '../support/process.ts'
import { sample, startProxy } from '../support/proxy.ts'
import { post, raw } from '../support/raw.ts'
import { httpSupplier, rawSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'

/** None while the file is not there: it is opened after the reload. */
const linesOf = (path: string) =>
  (existsSync(path) ? readFileSync(path, 'utf8') : '')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

async function world(
  t: Test,
  accessLog: object,
  { lane, more = {} }: { lane?: 'fast' | 'general'; more?: object } = {},
) {
  const supplier = await httpSupplier((request, response, body) => {
    if (request.url!.includes('/slow')) return
    response.writeHead(Number(body))
    response.end(Number(body) === 204 ? undefined : 'body')
  })
  const broken = await rawSupplier((socket) => void socket.destroy())
  const folder = newFolder()
  const path = join(folder, 'access.log')
  const endpoints = [`${supplier.url}/openrtb?secret=1`]
  const settings = { path, ...accessLog }
  const proxy = await startProxy(
    {
      acme: { endpoints },
      other: { endpoints },
      slow: { endpoints: [`${supplier.url}/slow`], timeout: '50ms' },
      broken: { endpoints: [broken.url] },
      closed: { endpoints, callers: { headers: { 'x-key': 'a' } } },
    },
    { ...(lane === undefined ? {} : { lane }), proxy: { accessLog: settings, ...more } },
  )
  t.teardown(async () => {
    await proxy.close()
    await Promise.all([supplier.close(), broken.close()])
  })
  const bid = (ssp: string, status = 200) =>
    raw(proxy.port, post(`/bid/${ssp}?user=jane`, String(status), 'X-User: jane\r\n'))
  return {
    ...{ supplier, proxy, folder, path, bid },
    host: new URL(supplier.url).host,
    configure: (next: object) =>
      proxy.proxy.configure(
        proxySchema.parse({ listen: '127.0.0.1:0', accessLog: { ...settings, ...next } }),
      ),
    counted: (result: string) =>
      sample(proxy.registry, `bidweir_access_log_lines_total{result="${result}"}`),
  }
}

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane} lane: a line says how a request ended, in the words of Envoy`, async (t) => {
    const { bid, path, host } = await world(t, { share: 1 }, { lane })
    for (const [ssp, status] of [
      ['acme', 200],
      ['acme', 204],
      ['acme', 500],
      ['slow', 200],
      ['broken', 200],
      ['closed', 200],
    ] as const)
      await bid(ssp, status)
    await until(() => linesOf(path).length === 6)
    const lines = linesOf(path)
    t.match(
      lines.map((line) => [
        line['upstream_cluster'],
        line['response_code'],
        line['response_flags'],
      ]),
      [
        ['acme', 200, '-'],
        ['acme', 204, '-'],
        ['acme', 500, '-'],
        ['slow', 204, 'UT'],
        ['broken', 204, 'UC'],
        ['closed', 403, 'UAEX'],
      ],
    )
    const [first, , , late, , refused] = lines
    t.match(first, {
      start_time: /^\d{4}-\d\d-\d\dT.*Z$/,
      ...{ method: 'POST', path: '/bid/acme', protocol: 'HTTP/1.1' },
      ...{ response_code_details: 'answer', bytes_received: 3, bytes_sent: 4, upstream_host: host },
    })
    t.ok((first!['duration'] as number) >= (first!['upstream_service_time'] as number))
    t.match(late, { response_code_details: 'timeout' })
    t.ok((late!['duration'] as number) >= 50)
    t.match(refused, { upstream_host: null, upstream_service_time: null, bytes_received: 0 })
    const text = readFileSync(path, 'utf8')
    for (const hidden of ['jane', 'secret', '127.0.0.1"', 'downstream_remote_address'])
      t.notMatch(text, hidden, 'no query, header or address')
  })

t.test(
  'failed and slow requests are logged beside the share, of the named suppliers',
  async (t) => {
    const { bid, path, configure } = await world(t, { share: 0, slow: '10s' })
    await bid('acme')
    await bid('acme', 503)
    await bid('slow')
    await until(() => linesOf(path).length === 2)
    configure({ share: 0, errors: 'share', suppliers: [] })
    await bid('acme', 503)
    // It takes 50 ms, and is logged for that alone.
    configure({ share: 0, errors: 'share', slow: '40ms', suppliers: ['slow'] })
    await bid('slow')
    configure({ share: 0, suppliers: ['other'] })
    await bid('acme', 503)
    await bid('other', 502)
    await until(() => linesOf(path).length === 4)
    t.same(
      linesOf(path).map((line) => line['response_code']),
      [503, 204, 204, 502],
    )
  },
)

t.test('addresses are logged if the configuration says so', async (t) => {
  const { bid, path } = await world(t, { share: 1, addresses: true })
  await bid('acme')
  await until(() => linesOf(path).length === 1)
  t.match(linesOf(path), [{ downstream_remote_address: '127.0.0.1' }])
})

t.test('a reload writes to a new file after a rotation, to another path, or nowhere', async (t) => {
  const { bid, path, folder, proxy, configure } = await world(t, { share: 1 })
  await bid('acme')
  await until(() => linesOf(path).length === 1)
  renameSync(path, `${path}.1`)
  configure({ share: 1 })
  await bid('acme')
  await until(() => linesOf(path).length === 1)
  const other = join(folder, 'other.log')
  configure({ share: 1, path: other })
  await bid('acme')
  await until(() => linesOf(other).length === 1)
  proxy.proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0' }))
  await bid('acme')
  t.same(
    [path, `${path}.1`, other].map((path) => linesOf(path).length),
    [1, 1, 1],
  )
})

t.test('what waits is written before the process ends', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  t.teardown(() => supplier.close())
  const path = join(newFolder(), 'access.log')
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url] } },
    { proxy: { accessLog: { path, share: 1 } } },
  )
  await raw(proxy.port, post('/bid/acme', '{}'))
  await proxy.close()
  t.equal(linesOf(path).length, 1)
})

t.test('a log that cannot be written is one error, and no lost bid', async (t) => {
  const { bid, proxy } = await world(t, { share: 1, path: '/dev/full' })
  t.equal((await bid('acme')).status, 200)
  await until(() => proxy.logged.includes('the access log cannot be written'))
  t.equal((await bid('acme')).status, 200)
  t.equal(proxy.logged.filter((line) => line.includes('access log')).length, 1)
})

t.test(
  'lines that cannot be written wait in a bounded buffer; further ones are counted',
  async (t) => {
    const errors: string[] = []
    const write = (_fields: object, message: string) => void errors.push(message)
    const counts = new Map<string, number>()
    const settings = accessLogSchema.parse({ path: '/dev/full', share: 1 })
    const log = new AccessLog(settings, { info: write, warn: write, error: write }, counts)
    t.teardown(() => log.close())
    for (let n = 0; n < 30_000; n++)
      log.write({
        ...{ ssp: 'acme', outcome: 'answer', status: 200, method: 'POST', path: '/bid/acme' },
        ...{ protocol: 'HTTP/1.1', remote: '127.0.0.1', received: 1, sent: 1, durationMs: 1 },
        upstream: null,
      })
    t.ok(counts.get('dropped')! > 10_000, `${counts.get('dropped')} dropped`)
    await until(() => errors.length > 0)
    t.same(errors, ['the access log cannot be written'])
  },
)

t.test('an outage logs at most 1,000 failures a second; the others are counted', async (t) => {
  const counts = new Map<string, number>()
  const ignore = () => {}
  const settings = accessLogSchema.parse({ path: join(newFolder(), 'log'), share: 0 })
  const log = new AccessLog(settings, { info: ignore, warn: ignore, error: ignore }, counts)
  t.teardown(() => log.close())
  const began = Math.floor(performance.now() / 1000)
  let selected = 0
  for (let n = 0; n < 5000; n++) if (log.selects('acme', 'overload', 204, 1)) selected++
  const seconds = Math.floor(performance.now() / 1000) - began + 1
  t.ok(selected <= 1000 * seconds, `${selected} in ${seconds} s`)
  t.equal(selected + counts.get('limited')!, 5000)
})
