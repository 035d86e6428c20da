/** Spans of bids and notices, by a real OpenTelemetry SDK; without one nothing of it is loaded. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createTracing } from '../../service/tracing.ts'
import type { ExportedSpan } from '../support/opentelemetry.ts'
import { newFolder } from '../support/process.ts'
import { echoSupplier, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const preload = fileURLToPath(new URL('../support/opentelemetry.ts', import.meta.url))
const traceOf = (digit: string) => digit.repeat(32)
const caller = 'c'.repeat(16)
const traceparent = (trace: string, flags = '01') => ({
  traceparent: `00-${trace}-${caller}-${flags}`,
})

async function tracedNode(t: Test) {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const file = join(folder, 'spans.ndjson')
  process.env['SPANS'] = file
  const node = await startNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true}'],
    auth: 'none',
    folder,
    preload,
  })
  delete process.env['SPANS']
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const spans = (): ExportedSpan[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line))
      : []
  return { node, supplier, spans }
}

t.test('with an SDK', async (t) => {
  const { node, supplier, spans } = await tracedNode(t)

  t.test('a bid and its notice are spans of their callers’ traces', async (t) => {
    const of = (trace: string) => spans().filter((span) => span.trace === traceOf(trace))
    const before = Date.now() / 1000
    const id = `auction ${'é'.repeat(100)}`
    const won = await node.bid({ id: 'b1', auction: id, headers: traceparent(traceOf('a')) })
    await until(() => of('a').length === 2)
    const bid = of('a').find(({ kind }) => kind === 1)!
    const upstream = of('a').find(({ kind }) => kind === 2)!
    t.match(bid, { name: 'POST /bid/{ssp}', parent: caller, status: 0 })
    t.same(bid.attributes, {
      'http.request.method': 'POST',
      'http.route': '/bid/{ssp}',
      'http.response.status_code': 200,
      'bidweir.ssp': 'acme',
      'bidweir.outcome': 'answer',
      'bidweir.request_id': id.slice(0, 64),
    })
    t.match(upstream, { parent: bid.id, attributes: { 'url.full': supplier.url } })
    t.ok(before <= bid.start && bid.start <= upstream.start, 'in order')
    t.ok(upstream.start <= upstream.end && upstream.end <= bid.end, 'in order')
    const sent = supplier.requests.at(-1)!.headers
    const at = sent.findIndex((name) => name.toLowerCase() === 'traceparent')
    t.equal(sent[at + 1], traceparent(traceOf('a')).traceparent, 'the supplier gets it unchanged')

    const notice = { bid_id: 'b1', price: '0.5', svc_opd: won.svcOpd }
    await node.notify(notice, traceparent(traceOf('b')))
    await node.notify({ bid_id: 'b2', price: 'x' }, traceparent(traceOf('d')))
    await until(() => of('b').length === 1 && of('d').length === 1)
    t.match(of('b')[0], { name: 'GET /opd/imp', kind: 1, parent: caller })
    t.ok(of('b')[0]!.start < of('b')[0]!.end)
    t.same(of('b')[0]!.attributes, {
      'http.request.method': 'GET',
      'http.route': '/opd/imp',
      'http.response.status_code': 200,
      'bidweir.notice.status': 'attributed',
      'bidweir.notice.attribution': 'context',
      'bidweir.bid_id': 'b1',
    })
    t.match(of('d')[0]!.attributes, { 'http.response.status_code': 400 })
    t.notMatch(JSON.stringify(spans()), won.svcOpd, 'no context in a span')
  })

  t.test(
    'a caller that does not sample is not sampled; without a caller’s trace one begins',
    async (t) => {
      const before = spans().length
      await node.bid({ id: 'b1', headers: traceparent(traceOf('e'), '00') })
      await node.notify({ bid_id: 'b1', price: '1' }, traceparent(traceOf('e'), '00'))
      await node.bid({ id: 'b2' })
      await until(() => spans().length === before + 2)
      t.notOk(spans().some(({ trace }) => trace === traceOf('e')))
      t.equal(
        spans()
          .slice(before)
          .find(({ kind }) => kind === 1)!.parent,
        null,
      )
    },
  )

  t.test('a failure has its request id in the span and in the log', async (t) => {
    const before = spans().length
    await supplier.close()
    await t.rejects(node.bid({ id: 'b1', auction: 'auction-7' }), /204/)
    await until(() => spans().length === before + 2)
    const bid = spans()
      .slice(before)
      .find(({ kind }) => kind === 1)!
    t.match(bid, { status: 2, attributes: { 'bidweir.outcome': 'upstream_error' } })
    t.equal(bid.attributes['bidweir.request_id'], 'auction-7')
    await until(() => /an endpoint is failing/.test(node.bidweir.stderr()))
    const line = node.bidweir
      .stderr()
      .split('\n')
      .find((each) => each.includes('is failing'))!
    t.match(JSON.parse(line), { ssp: 'acme', request: 'auction-7', reason: 'refused' })
  })
})

t.test('without an SDK there is no tracer', (t) => {
  t.equal(createTracing({ info() {}, warn() {}, error() {} }), null)
  t.end()
})
