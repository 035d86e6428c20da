/** Country, device, format, size and deal of a bid, from its request to the reports, whichever way it was priced. */
import t, { type Test } from 'tap'
import { AgentClient, callOf } from '../support/agent.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, type NodeOptions } from '../support/service-node.ts'
import { startWorkers } from '../support/workers.ts'

const names = ['country', 'device', 'format', 'size', 'deal'] as const
const deal = { pmp: { deals: [{ id: 'deal-7', bidfloor: 0.1 }] } }
const banner = { banner: { w: 300, h: 250 } }
const german = { device: { devicetype: 4, geo: { country: 'deu' } } }

async function supplierOf(t: Test) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  return {
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    endpoint: supplier.url,
    auth: 'none',
  } satisfies NodeOptions
}

/** By facet: the rows of the report with what they are about. */
async function reported(
  node: { report(path: string): Promise<Record<string, unknown>[]> },
  facet = '',
): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const name of names)
    found[name] = (await node.report(`discrepancy?by=${name}${facet}`)).map(
      ({ key, decided, wins }) => `${key} ${decided} ${wins}`,
    )
  return found
}

t.test('bids in a response, of a standalone call and of an agent call', async (t) => {
  const node = await serveNode({
    ...(await supplierOf(t)),
    more: 'agent: {listen: "127.0.0.1:0", timeout: 60s}',
  })
  const client = new AgentClient(node.bidweir.agentPort!)
  t.teardown(() => {
    client.close()
    return node.stop()
  })
  const inResponse = async (id: string, request: Record<string, unknown>) =>
    node.bid({ id, price: 2, request })
  const one = await inResponse('one', { ...german, imp: [{ id: '1', ...banner, ...deal }] })
  const other = await inResponse('other', {
    user: { geo: { country: 'FRA' } },
    imp: [{ id: '1', video: { w: 640, h: 360 } }],
  })
  await node.notify({ bid_id: 'one', price: '0.5', svc_opd: one.svcOpd })
  await node.notify({ bid_id: 'one', price: '0.5', svc_opd: one.svcOpd })
  await node.notify({ bid_id: 'other', price: '0.5', svc_opd: other.svcOpd })
  t.strictSame(await reported(node), {
    country: ['DEU 1 1', 'FRA 1 1'],
    device: [' 1 1', 'phone 1 1'],
    format: ['banner 1 1', 'video 1 1'],
    size: ['300x250 1 1', '640x360 1 1'],
    deal: [' 2 2'],
  })
  t.match(
    await node.report('discrepancy?by=size'),
    [
      { key: '300x250', duplicate: 1 },
      { key: '640x360', duplicate: 0 },
    ],
    'the repeated notice',
  )
  const body = {
    ...{ id: 'call', ...german, imp: [{ id: '1', ...banner, ...deal }] },
    seatbid: [{ bid: [{ id: 'alone', impid: '1', price: 2, dealid: 'deal-7' }] }],
  }
  const answer = await node.api('/opd/acme_yesbid', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  t.equal(answer.status, 200)
  const facet = 'via=standalone'
  t.strictSame(await reported(node, `&${facet}`), {
    country: ['DEU 1 0'],
    device: ['phone 1 0'],
    format: ['banner 1 0'],
    size: ['300x250 1 0'],
    deal: ['deal-7 1 0'],
  })
  const bid_request = { ...callOf().bid_request, ...german, id: 'by agent' }
  const { mutations } = await client.call(callOf({ bid_request }, { id: 'agent' }))
  await node.notify({ bid_id: 'agent', price: String(mutations[0]!.adjust_bid.price) })
  t.strictSame(await reported(node, '&via=agent'), {
    country: ['DEU 1 1'],
    device: ['phone 1 1'],
    format: ['banner 1 1'],
    size: ['300x250 1 1'],
    deal: [' 1 1'],
  })
  t.match(
    await node.report('discrepancy?by=country,via'),
    [
      { key: 'DEU', key2: 'agent', decided: 1 },
      { key: 'DEU', key2: 'proxy', decided: 1 },
      { key: 'DEU', key2: 'standalone', decided: 1 },
      { key: 'FRA', key2: 'proxy', decided: 1 },
    ],
    'two dimensions',
  )
})

t.test('bids of all processes', async (t) => {
  const node = await startWorkers(await supplierOf(t))
  t.teardown(() => node.stop('SIGKILL'))
  const count = 12
  for (let n = 0; n < count; n++)
    await node.bid({
      id: `bid-${n}`,
      price: 2,
      request: { ...german, imp: [{ id: '1', ...banner }] },
    })
  const decided = await node.report('discrepancy?by=country')
  t.match(decided, [{ key: 'DEU', decided: count }])
  t.equal(decided.length, 1)
  const seen = await node.requestsByWorker()
  t.ok(
    seen.every((requests) => requests > 0),
    `spread ${seen}`,
  )
})
