/** A supplier where OPD earns nothing, or counts what is not so, is not shown as healthy. */
import t from 'tap'
import type { LiveIntegration, LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { newFolder } from '../../support/process.ts'
import { type Answered, echoSupplier, startNode } from '../../support/service-node.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const opd = 'opd: {enabled: true, holdout: .5}'

t.test('each warning names what is wrong with the bids and notices of a supplier', async (t) => {
  let responses = 0
  /** It echoes bids that are asked for in `ext`. Otherwise every second response has a bid without the macro, the rest no bid. */
  const supplier = await httpSupplier((_request, response, body) => {
    const { ext } = JSON.parse(body) as { ext?: { bids: object[] } }
    const bare = { id: '1', impid: '1', price: 1, nurl: 'https://t.example/w' }
    const bid = ext?.bids ?? (responses++ % 2 === 0 ? [bare] : [])
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ id: 'r', seatbid: bid.length === 0 ? [] : [{ bid }] }))
  })
  const folder = newFolder()
  const node = await startNode({
    folder,
    endpoint: supplier.url,
    suppliers: ['fine', 'silent', 'unknown', 'low', 'bare', 'no-bids'].map(
      (id) => `id: ${id}, ${opd}`,
    ),
    more: `store: {database: "sqlite:${folder}/b.db"}\nopd: {attributionWindow: 1s}`,
  })
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  const bareBids = async (ssp: string, count: number) => {
    for (let index = 0; index < count; index++) {
      const url = `http://127.0.0.1:${node.bidweir.proxyPort}/bid/${ssp}`
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(url, { method: 'POST', headers, body: '{"id":"r","imp":[]}' })
      t.equal(response.status, 200)
      await response.arrayBuffer()
    }
  }
  const decide = async (ssp: string, count: number) => {
    const answered: Answered[] = []
    for (let from = 0; from < count; from += 20)
      answered.push(
        ...(await node.bids(
          Array.from({ length: 20 }, (_, index) => ({
            id: `${ssp}-${from + index}`,
            ssp,
            price: 2,
          })),
        )),
      )
    return answered
  }
  const win = async ({ id, out, svcOpd }: Answered, factor = 1) => {
    const price = (Number(out) * factor).toFixed(4)
    t.equal((await node.notify({ bid_id: id, price, svc_opd: svcOpd })).http, 200)
  }
  for (const bid of (await decide('fine', 240)).slice(0, 40)) await win(bid)
  for (const bid of (await decide('low', 240)).slice(0, 40)) await win(bid, 0.001)
  await bareBids('bare', 60)
  responses = 1
  for (let index = 0; index < 30; index++) {
    await bareBids('no-bids', 1)
    responses = 1
  }
  await decide('silent', 240)
  const unknown = await decide('unknown', 240)
  for (const bid of unknown.slice(0, 20)) await win(bid)
  const token = { authorization: `Bearer ${await node.login()}` }
  for (let index = 0; index < 20; index++) {
    const query = { bid_id: `never-decided-${index}`, price: '1', ssp: 'unknown' }
    t.match(await node.notify(query, token), { body: { status: 'unattributed' } })
  }
  const live = async () => (await (await node.api('/api/svc/live/')).json()) as LiveSnapshot
  const healthOf = ({ integrations }: LiveSnapshot, id: string): LiveIntegration['health'] =>
    integrations.find(({ ssp }) => ssp === id)!.health
  const texts = (snapshot: LiveSnapshot, id: string) =>
    healthOf(snapshot, id).reasons.flatMap(({ text, fix }) => (fix === null ? [] : [text]))
  await until(async () => texts(await live(), 'silent').length > 0)
  const snapshot = await live()
  t.match(texts(snapshot, 'silent'), ['no win notice has come for 240 decided bids'])
  t.match(texts(snapshot, 'unknown'), ['50% of the win notices belong to no known decision'])
  t.match(texts(snapshot, 'low'), ['100% of the wins cleared below half of the price sent'])
  t.match(texts(snapshot, 'bare'), ['no bid contains the macro'])
  for (const id of ['fine', 'no-bids']) t.same(texts(snapshot, id), [])
  for (const id of ['silent', 'unknown', 'low', 'bare'])
    t.equal(healthOf(snapshot, id).level, 'warn')
  t.same(snapshot.nodes[0]!.problems, [])
  for (let index = 0; index < 30; index++)
    t.equal((await node.notify({ bid_id: `b${index}`, price: '1' })).http, 401)
  t.match((await live()).nodes[0]!.problems, [{ level: 'warn', text: /refused and name no/ }])
})

t.test('refused requests have a count of their own, and end with their cause', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const node = await startNode({
    folder,
    endpoint: supplier.url,
    suppliers: ['id: acme'],
    more: `location: us-east\nstore: {database: "sqlite:${folder}/b.db"}`,
  })
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  const change = async (method: 'POST' | 'PUT', is_active: boolean) => {
    const response = await node.api('/api/svc/ssp/acme/', {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ datacenters: [{ location: 'us-east', is_active }] }),
    })
    t.ok(response.ok)
  }
  const shown = async () =>
    ((await (await node.api('/api/svc/live/')).json()) as LiveSnapshot).integrations[0]!
  for (let index = 0; index < 10; index++) await node.bid({ id: `b${index}`, price: 1 })
  const before = await shown()
  t.match(before, { total: 10, sent: 10, failed: 0, refused: 0, health: { level: 'ok' } })
  t.ok(before.p50! > 0)
  await change('POST', false)
  const reason = async () => {
    const url = `http://127.0.0.1:${node.bidweir.proxyPort}/bid/acme`
    const body = '{"id":"r","imp":[],"ext":{"bids":[]}}'
    return (await fetch(url, { method: 'POST', body })).headers.get('x-bidweir-reason')
  }
  await until(async () => (await reason()) === 'inactive')
  const first = await shown()
  for (let index = 0; index < 40; index++) t.equal(await reason(), 'inactive')
  const refused = await shown()
  t.match(refused, { sent: first.sent, refused: first.refused + 40, total: first.total + 40 })
  t.same([refused.p50, refused.p99], [first.p50, first.p99], 'times are those of the supplier')
  t.match(refused.health.reasons, [{ text: 'the data center us-east is inactive' }])
  await change('PUT', true)
  await until(async () => (await shown()).health.level === 'ok')
  t.equal((await shown()).refused, refused.refused, 'they are still those of the last minutes')
})
