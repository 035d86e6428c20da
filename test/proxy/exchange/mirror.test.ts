/** `mirror`: a copy of a share of the requests, compared with the supplier's responses, without effect on them. */
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { routeSchema } from '../../../proxy/config.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { timePasses, until } from '../../support/until.ts'

const answer = (...prices: number[]) =>
  JSON.stringify({ seatbid: [{ bid: prices.map((price) => ({ price })) }] })

/** The request contains what each side answers, as `{real: […], mirror: […]}`: a status, or prices. */
async function world(t: Test, share = 1, timeout = '20s') {
  const seen: {
    side: string
    url: string
    headers: NodeJS.Dict<string | string[]>
    body: string
  }[] = []
  const serve = (side: 'real' | 'mirror') =>
    httpSupplier((request, response, body) => {
      seen.push({ side, url: request.url!, headers: request.headers, body })
      const wanted = (JSON.parse(body) as Record<string, number | number[] | string>)[side]!
      if (wanted === 'never') return
      if (wanted === 'close') return void response.destroy()
      if (wanted === 'long') return void response.end('x'.repeat(300_000))
      if (wanted === 'nonsense') return void response.end('{')
      if (typeof wanted === 'number') return void response.writeHead(wanted).end()
      const text = answer(...(wanted as number[]))
      if (side === 'real') return void response.end(text)
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(text))
    })
  const [real, mirror] = await Promise.all([serve('real'), serve('mirror')])
  const mirrored = { endpoint: `${mirror.url}?copy=1`, share }
  const route = {
    endpoints: [real.url],
    timeout,
    mirror: mirrored,
    headers: { set: { 'x-key': 'k' } },
  }
  const proxy = await startProxy({ acme: route })
  t.teardown(() => Promise.all([proxy.close(), real.close(), mirror.close()]))
  const bid = (body: object) =>
    raw(proxy.port, post('/bid/acme?a=1', JSON.stringify(body), 'X-Mine: 1\r\n'))
  const counted = (name: string, label: string, value: string) =>
    sample(proxy.registry, `bidweir_mirror_${name}{ssp="acme",${label}="${value}"}`)
  return {
    ...{ proxy, seen, bid, counted, mirror, route },
    compared: (result: string) => counted('compared_total', 'result', result),
    requests: (outcome: string) => counted('requests_total', 'outcome', outcome),
  }
}

t.test('the copy has the head and the body of the request', async (t) => {
  const { seen, bid, requests } = await world(t)
  const { status, body } = await bid({ real: [1.5], mirror: [9] })
  t.same([status, body], [200, answer(1.5)], 'the caller has the response of the supplier')
  await until(async () => (await requests('answer')) === 1)
  const [one, other] = [
    seen.find(({ side }) => side === 'real')!,
    seen.find(({ side }) => side === 'mirror')!,
  ]
  const { host: _one, ...headers } = one.headers
  const { host: _other, ...copied } = other.headers
  t.same(copied, headers)
  t.match(headers, { 'x-mine': '1', 'x-key': 'k' })
  t.equal(other.body, one.body)
  t.match(other.url, /\?copy=1&a=1$/)
})

t.test('status, bids and prices are compared', async (t) => {
  const { bid, compared, requests, counted } = await world(t)
  for (const [real, mirror] of [
    [
      [1, 2],
      [2, 1],
    ],
    [[1], [1.25]],
    [[1], [1, 2]],
    [204, [1]],
    [204, 204],
    [[1], 'nonsense'],
    ['close', [1]],
  ])
    await bid({ real, mirror })
  const results = ['same', 'prices', 'bids', 'status', 'unknown'] as const
  const sums = () => Promise.all(results.map(compared))
  await until(async () => (await sums()).reduce((sum, count) => sum + count, 0) === 7)
  t.same(await sums(), [2, 1, 1, 1, 2])
  t.same([await requests('answer'), await requests('no_bid')], [6, 1])
  const bids = (route: string) => counted('bids_total', 'of', route)
  t.same([await bids('supplier'), await bids('mirror')], [4, 5])
  const prices = (route: string) => counted('price_total', 'of', route)
  t.same([await prices('supplier'), await prices('mirror')], [5, 7.25])
})

t.test('a mirror that hangs, breaks or talks without end costs the caller nothing', async (t) => {
  const { bid, requests, proxy, mirror } = await world(t, 1, '400ms')
  for (const mirrored of ['never', 'close', 'long']) {
    const { status, body } = await bid({ real: [1], mirror: mirrored })
    t.same([status, body], [200, answer(1)])
  }
  await until(async () => (await requests('timeout')) === 1 && (await requests('error')) === 2)
  t.equal(await sample(proxy.registry, 'bidweir_requests_total{ssp="acme",outcome="answer"}'), 3)
  await mirror.close()
  t.equal((await bid({ real: [1], mirror: [1] })).status, 200)
  await until(async () => (await requests('error')) === 3)
})

t.test('64 copies are at the mirror at once; further requests are not copied', async (t) => {
  const { bid, requests, seen } = await world(t)
  for (let n = 0; n < 70; n++) await bid({ real: 204, mirror: 'never' })
  t.equal(await requests('skipped'), 6)
  await until(() => seen.filter(({ side }) => side === 'mirror').length === 64)
})

t.test('a share is copied, and a reload changes or removes the mirror', async (t) => {
  const { bid, proxy, seen, route, requests } = await world(t, 0)
  const copies = () => seen.filter(({ side }) => side === 'mirror').length
  for (let n = 0; n < 20; n++) await bid({ real: 204, mirror: 204 })
  t.equal(copies(), 0)
  const set = (mirror: object | undefined) =>
    proxy.proxy.setRoute({ ...routeSchema.parse({ ...route, mirror }), id: 'acme' })
  set({ ...route.mirror, share: 1 })
  await bid({ real: 204, mirror: 204 })
  await until(async () => (await requests('no_bid')) === 1)
  set(undefined)
  await bid({ real: 204, mirror: 204 })
  await timePasses(50, 'nothing is copied')
  t.equal(copies(), 1)
})
