/** The agent listener (CONTRACT 15), as an exchange calls it. */
import { status } from '@grpc/grpc-js'
import * as fc from 'fast-check'
import t from 'tap'
import { type AgentAnswer, AgentClient, callOf, printed } from '../../support/agent.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const supplier = await echoSupplier()
const node = await serveNode({
  endpoint: supplier.url,
  suppliers: [
    'id: acme, opd: {enabled: true, holdout: 0, explore: 0}',
    'id: quiet, opd: {enabled: shadow}',
    'id: off',
    'id: held, opd: {enabled: true, holdout: 0}',
    'id: compared, opd: {enabled: true, holdout: 1}',
    'id: far, opd: {enabled: true, holdout: 0}',
  ],
  more: 'agent: {listen: "127.0.0.1:0", timeout: 60s, originators: {dsp-7: acme, "": acme}}',
})
const port = node.bidweir.agentPort!
const client = new AgentClient(port)
t.teardown(async () => {
  client.close()
  await node.stop()
  await supplier.close()
})

/** The value of a series of /metrics. */
async function metric(series: string): Promise<number> {
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  const line = text.split('\n').find((line) => line.startsWith(`${series} `))
  return Number(line?.split(' ')[1] ?? 0)
}
const outcomes = (ssp: string, outcome: string) =>
  metric(`bidweir_agent_calls_total{ssp="${ssp}",outcome="${outcome}"}`)

const isLowered = ({ mutations }: AgentAnswer) => mutations.length === 1

t.test('a bid gets a lower price, never below its floor', async (t) => {
  const answer = await client.call(callOf())
  t.equal(answer.id, 'call-1')
  t.equal(answer.metadata?.api_version, '1.0')
  t.match(answer.metadata?.model_version, /^revenue-0-\d+$/)
  const [mutation] = answer.mutations
  t.match(mutation, { intent: 'BID_SHADE', op: 'OPERATION_REPLACE' })
  t.equal(mutation?.path, '/seatbid/seat-1/bid/bid-1')
  const price = mutation?.adjust_bid.price ?? 0
  t.ok(price >= 1 && price < 2.4, `${price}`)
})

t.test(
  'the time of each call is in a histogram with the bounds that exchanges ask for',
  async (t) => {
    const name = 'bidweir_agent_duration_seconds'
    const before = await metric(`${name}_count`)
    await client.call(callOf({ bid_response: undefined }))
    t.equal(await metric(`${name}_count`), before + 1)
    const text = await (await fetch(`${node.admin}/metrics`)).text()
    const found = [...text.matchAll(/^bidweir_agent_duration_seconds_bucket\{le="([^"]+)"\}/gm)]
    t.same(
      found.map(([, bound]) => bound),
      ['0.0025', '0.005', '0.01', '0.025', '0.05', '+Inf'],
    )
  },
)

t.test('both names of the service are served', async (t) => {
  t.ok(isLowered(await client.call(callOf(), printed)))
})

t.test(
  'a call without a lifecycle, an intent or an originator is priced by its contents',
  async (t) => {
    const call = callOf({ lifecycle: 0, applicable_intents: [], originator: undefined })
    t.ok(isLowered(await client.call(call)))
  },
)

t.test('an originator is mapped to its supplier', async (t) => {
  t.ok(isLowered(await client.call(callOf({ originator: { id: 'dsp-7' } }))))
})

const unpriced: [title: string, call: object, ssp: string, outcome: string][] = [
  [
    'another lifecycle',
    callOf({ lifecycle: 'LIFECYCLE_PUBLISHER_BID_REQUEST' }),
    'acme',
    'lifecycle',
  ],
  ['other intents', callOf({ applicable_intents: ['ACTIVATE_DEALS'] }), 'acme', 'intent'],
  ['no bid response', callOf({ bid_response: undefined }), 'acme', 'no_response'],
  ['an unknown supplier', callOf({ originator: { id: 'nobody' } }), '_other', 'unknown_supplier'],
  ['a supplier without OPD', callOf({ originator: { id: 'off' } }), 'off', 'disabled'],
  ['a supplier in shadow', callOf({ originator: { id: 'quiet' } }), 'quiet', 'unchanged'],
  ['a price at the floor', callOf({}, { price: 1 }), 'acme', 'unchanged'],
  [
    'a bid with a context macro',
    callOf({}, { nurl: 'https://a.example/?svc_opd=${SVC_OPD_CONTEXT}' }),
    'acme',
    'unchanged',
  ],
  ['a bid of an unknown imp', callOf({}, { impid: '9' }), 'acme', 'unchanged'],
  [
    'too many bids',
    callOf({
      bid_response: {
        seatbid: [
          { bid: Array.from({ length: 2001 }, (_, n) => ({ id: `b${n}`, impid: '1', price: 2 })) },
        ],
      },
    }),
    'acme',
    'too_large',
  ],
]
unpriced.push(
  ['a supplier on hold', callOf({ originator: { id: 'held' } }), 'held', 'unchanged'],
  ['a bid of the holdout', callOf({ originator: { id: 'compared' } }), 'compared', 'unchanged'],
  ['an inactive supplier', callOf({ originator: { id: 'far' } }), 'far', 'inactive'],
)
t.test('suppliers are put on hold, and made inactive at this location', async (t) => {
  const put = (path: string, body: object, method = 'PUT') =>
    node.api(path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  t.equal((await put('/api/svc/opd/held/', { hold: true })).status, 200)
  const dataCenter = { location: 'local', client_qps: null, is_active: false }
  const answer = await put('/api/svc/ssp/far/', { datacenters: [dataCenter] }, 'POST')
  t.equal(answer.status, 201, await answer.text())
  const isDone = async () => {
    const [held, far] = await Promise.all(
      ['held', 'far'].map((id) => client.call(callOf({ originator: { id } }))),
    )
    return held?.mutations.length === 0 && far?.mutations.length === 0
  }
  await until(isDone)
})

for (const [title, call, ssp, outcome] of unpriced)
  t.test(`${title}: OK without a mutation, counted as ${outcome}`, async (t) => {
    const before = await outcomes(ssp, outcome)
    const answer = await client.call(call)
    t.same(answer.mutations, [])
    t.equal(answer.id, 'call-1')
    t.equal(await outcomes(ssp, outcome), before + 1)
  })

t.test('bytes that are no RTBRequest are INVALID_ARGUMENT', async (t) => {
  for (const bytes of [Buffer.from([0xff]), Buffer.from([0x22, 0x05, 0x01]), Buffer.from([0x0b])])
    await t.rejects(client.send(bytes), { code: status.INVALID_ARGUMENT })
})

t.test(
  'a message of more than 4 MiB is RESOURCE_EXHAUSTED, and the listener goes on',
  async (t) => {
    const bytes = Buffer.alloc(4 * 1024 * 1024 + 1)
    await t.rejects(client.send(bytes), { code: status.RESOURCE_EXHAUSTED })
    t.ok(isLowered(await client.call(callOf())))
  },
)

t.test('a call whose time is over gets no mutation', async (t) => {
  const before = await outcomes('acme', 'overload')
  // 1 ms, less the way back, is over when the loop is a little late; repeated until it was.
  for (let calls = 0; calls < 2000 && (await outcomes('acme', 'overload')) === before; calls++)
    await Promise.all(Array.from({ length: 50 }, () => client.call(callOf({ tmax: 1 }))))
  t.ok((await outcomes('acme', 'overload')) > before)
})

t.test(
  'bids that have one path keep their prices: an exchange could not distinguish them',
  async (t) => {
    const bids = (...ids: string[]) => ids.map((id) => ({ id, impid: '1', price: 2.4 }))
    const paths = async (seatbid: object[]) => {
      const answer = await client.call(callOf({ bid_response: { seatbid } }))
      return answer.mutations.map(({ path }) => path)
    }
    t.same(await paths([{ seat: 's', bid: bids('a', 'a', 'b') }]), ['/seatbid/s/bid/b'])
    t.same(await paths([{ bid: bids('a') }, { seat: '0', bid: bids('a', 'b') }]), [
      '/seatbid/0/bid/b',
    ])
    t.same(await paths([{ seat: 's', bid: bids('') }]), [])
  },
)

t.test('bids of names that are too long for a path keep their prices', async (t) => {
  const long = 'n'.repeat(257)
  const bids = [long, 'short'].map((id) => ({ id, impid: '1', price: 2.4 }))
  const seatbid = [
    { seat: 's', bid: bids },
    { seat: long, bid: [{ id: 'b', impid: '1', price: 2.4 }] },
  ]
  const answer = await client.call(callOf({ bid_response: { seatbid } }))
  t.same(
    answer.mutations.map(({ path }) => path),
    ['/seatbid/s/bid/short'],
  )
})

t.test('a seat of two megabytes of name and 2,000 bids gets a short answer', async (t) => {
  const bid = Array.from({ length: 2000 }, (_, n) => ({ id: `b${n}`, impid: '1', price: 2.4 }))
  const seatbid = [{ seat: 's'.repeat(2_000_000), bid }]
  t.same((await client.call(callOf({ bid_response: { seatbid } }))).mutations, [])
})

t.test('a call of an id of more than 1,024 characters is not priced', async (t) => {
  const before = await outcomes('_other', 'too_large')
  t.same((await client.call(callOf({ id: 'i'.repeat(1025) }))).mutations, [])
  t.equal(await outcomes('_other', 'too_large'), before + 1)
})

t.test('a call that is read in several turns of the event loop is priced', async (t) => {
  const imp = Array.from({ length: 6000 }, (_, n) => ({ id: String(n), bidfloor: 1 }))
  const answer = await client.call(callOf({ bid_request: { id: 'auction-long', imp } }))
  t.equal(answer.mutations.length, 1)
})

t.test('a bare win notice is attributed to the bid of a call', async (t) => {
  const answer = await client.call(
    callOf({ bid_request: { ...callOf().bid_request, id: 'auction-2' } }, { id: 'bid-won' }),
  )
  const price = String(answer.mutations[0]?.adjust_bid.price)
  const { body } = await node.notify(
    { bid_id: 'bid-won', price },
    {
      authorization: `Bearer ${await node.login()}`,
    },
  )
  t.same(body, { status: 'attributed', by: 'bid_log' })
})

t.test('2,000 bids of one call are priced', async (t) => {
  const bid = Array.from({ length: 2000 }, (_, n) => ({ id: `b${n}`, impid: '1', price: 2.4 }))
  const decided = async () => {
    const [row] = await node.report('wins?ssp=acme&via=agent')
    return Number(row?.['decided'] ?? 0)
  }
  const before = await decided()
  const { mutations } = await client.call(callOf({ bid_response: { seatbid: [{ bid }] } }))
  t.ok(mutations.length > 0)
  t.equal(await decided(), before + 2000)
})

t.test('a price is never above that of the bid nor below the floor, as doubles', async (t) => {
  const price = fc.double({ min: 1e-6, max: 1e4, noNaN: true })
  await fc.assert(
    fc.asyncProperty(price, price, async (one, other) => {
      const [floor, ownPrice] = [Math.min(one, other), Math.max(one, other)]
      const request = { ...callOf().bid_request, imp: [{ id: '1', bidfloor: floor, banner: {} }] }
      const { mutations } = await client.call(callOf({ bid_request: request }, { price: ownPrice }))
      const sent = mutations[0]?.adjust_bid.price ?? ownPrice
      return sent >= floor && sent <= ownPrice
    }),
    { numRuns: 300 },
  )
  t.pass()
})

t.test('probes come to the same port over HTTP/1.1', async (t) => {
  const probe = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status
  t.equal(await probe('/heartbeat'), 200)
  t.equal(await probe('/healthcheck'), 200)
  t.equal(await probe('/'), 404)
})

t.test('the health service says SERVING', async (t) => {
  // SERVING is 1, in field 1.
  t.same(
    await client.exchange(Buffer.alloc(0), '/grpc.health.v1.Health/Check'),
    Buffer.from([8, 1]),
  )
})
