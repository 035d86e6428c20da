/** Endpoints of a whole node: their state in the API, and what an operator does about it, in all processes of the node. */
import t, { type Test } from 'tap'
import { serveNode } from '../support/served-node.ts'
import { sumOf } from '../support/service-node.ts'
import { httpSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'
import { startWorkers } from '../support/workers.ts'

async function endpoint(t: Test) {
  const state = { health: 200, status: 204, bids: 0 }
  const supplier = await httpSupplier((request, response) => {
    const isCheck = request.headers['user-agent'] === 'bidweir-health-check'
    if (!isCheck) state.bids++
    response.writeHead(isCheck ? state.health : state.status).end()
  })
  t.teardown(() => supplier.close())
  return Object.assign(state, { url: supplier.url })
}

interface ShownEndpoint {
  url: string
  override: { action: string } | null
  nodes: Record<string, unknown>[]
}

interface Api {
  api(path: string, init?: RequestInit): Promise<Response>
  bidweir: { proxyPort: number }
}

function callsOf(node: Api) {
  const send = async (count: number) => {
    for (let n = 0; n < count; n++) {
      const response = await fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/acme`, {
        ...{ method: 'POST', body: '{"id":"q","imp":[{"id":"1"}]}' },
        headers: { 'content-type': 'application/json', connection: 'close' },
      })
      await response.arrayBuffer()
    }
  }
  return {
    send,
    async shown(): Promise<ShownEndpoint[]> {
      const response = await node.api('/api/svc/endpoints/acme/')
      return ((await response.json()) as { endpoints: ShownEndpoint[] }).endpoints
    },
    put: (body: object) =>
      node.api('/api/svc/endpoints/acme/', {
        ...{ method: 'PUT', headers: { 'content-type': 'application/json' } },
        body: JSON.stringify(body),
      }),
    /** Whether an endpoint gets none of 20 requests. */
    getsNone: async (counts: { bids: number }) => {
      const before = counts.bids
      await send(20)
      return counts.bids === before
    },
  }
}

t.test('the API says why an endpoint is out, since when, and when it is tried again', async (t) => {
  const [bad, good] = [await endpoint(t), await endpoint(t)]
  bad.status = 503
  const node = await serveNode({
    endpoint: `${bad.url}?key=s3cret", "${good.url}`,
    suppliers: ['id: acme, outliers: {baseEjection: 60s}'],
  })
  t.teardown(() => node.stop())
  const { send, shown, put, getsNone } = callsOf(node)
  await send(30)
  const found = await shown()
  t.match(found, [
    {
      ...{ url: bad.url, weight: 1, zone: null, priority: 0, override: null },
      nodes: [{ state: 'ejected', reason: 'status 503', last_error: 'status 503', in_flight: 0 }],
    },
    { url: good.url, nodes: [{ state: 'up', reason: null, last_error: null }] },
  ])
  t.notMatch(JSON.stringify(found), /s3cret/)
  const [failing] = found[0]!.nodes as { since: string; next_try: string; last_error_at: string }[]
  const time = (text: string) => Date.parse(text)
  t.ok(
    time(failing!.since) <= time(failing!.next_try) &&
      time(failing!.next_try) - time(failing!.since) > 50_000,
  )
  t.ok(Math.abs(time(failing!.last_error_at) - Date.now()) < 60_000)

  bad.status = 204
  t.equal((await put({ endpoint: bad.url, action: 'restore' })).status, 200)
  await until(async () => !(await getsNone(bad)))
  t.match((await shown())[0], { override: { action: 'restore' }, nodes: [{ state: 'up' }] })

  t.equal((await put({ endpoint: bad.url, action: 'eject', for: '2s' })).status, 200)
  await until(() => getsNone(bad))
  t.match((await shown())[0]!.nodes, [{ state: 'out', reason: 'operator' }])
  t.match(node.bidweir.stderr(), /"state":"out","reason":"operator"/)
  await until(async () => !(await getsNone(bad)))
  t.match((await shown())[0]!.nodes, [{ state: 'up' }], 'its time is over')
})

t.test('all processes of a node act on health checks and on operators', async (t) => {
  const [one, two] = [await endpoint(t), await endpoint(t)]
  const node = await startWorkers({
    endpoint: `${one.url}", "${two.url}`,
    suppliers: ['id: acme, healthCheck: {interval: 500ms, unhealthyAfter: 2}'],
  })
  t.teardown(() => node.stop('SIGKILL'))
  const { put, getsNone, send } = callsOf(node)
  one.health = 500
  await until(() => getsNone(one))
  const before = await node.requestsByWorker()
  t.ok(await getsNone(one))
  const after = await node.requestsByWorker()
  t.ok(
    after.every((requests, index) => requests > before[index]!),
    `both processes have sent: ${before} ${after}`,
  )
  one.health = 200
  await until(async () => !(await getsNone(one)))
  t.equal((await put({ endpoint: two.url, action: 'eject' })).status, 200)
  await until(() => getsNone(two))
  await send(5)
  t.ok(sumOf(await node.metrics(), 'bidweir_health_checks_total') > 0)
})
