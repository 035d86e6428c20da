/** Spans of bids and notices: what is traced, what the supplier is sent, and what becomes of spans that are not taken. */
import { writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SpanExporter } from '../../service/tracing/exporter.ts'
import type { Span } from '../../service/tracing/otlp.ts'
import { otlpReceiver } from '../support/otlp.ts'
import { newFolder } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, yamlOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'
import { startWorkers } from '../support/workers.ts'

const traceOf = (digit: string) => digit.repeat(32)
const caller = 'c'.repeat(16)
const traceparent = (digit: string, flags = '01') => ({
  traceparent: `00-${traceOf(digit)}-${caller}-${flags}`,
})

const receiver = await otlpReceiver()
t.teardown(() => receiver.close())
const tracing = (ratio: number, endpoint = receiver.url) =>
  `tracing: {endpoint: "${endpoint}/", ratio: ${ratio}, headers: {x-tenant: t1}}`

async function tracedNode(t: Test, ratio: number) {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true}'],
    auth: 'none',
    more: tracing(ratio),
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  /** Of the request that the supplier got last. */
  const sent = (name: string) => {
    const { headers } = supplier.requests.at(-1)!
    return headers.flatMap((header, index) =>
      index % 2 === 0 && header.toLowerCase() === name ? [headers[index + 1]!] : [],
    )
  }
  return { node, supplier, sent }
}

t.test('a bid and its notice are spans of their callers’ traces', async (t) => {
  const { node, supplier, sent } = await tracedNode(t, 0)
  const before = Date.now() - 1
  const id = `auction ${'é'.repeat(100)}`
  const won = await node.bid({
    ...{ id: 'b1', auction: id },
    headers: { ...traceparent('a'), tracestate: 'x=1' },
  })
  await until(() => receiver.spansOf(traceOf('a')).length === 2)
  const bid = receiver.spansOf(traceOf('a')).find(({ kind }) => kind === 2)!
  const upstream = receiver.spansOf(traceOf('a')).find(({ kind }) => kind === 3)!
  t.match(bid, { name: 'POST /bid/{ssp}', parent: caller, status: 0 })
  t.same(bid.attributes, {
    'http.request.method': 'POST',
    'http.route': '/bid/{ssp}',
    'http.response.status_code': 200,
    'bidweir.ssp': 'acme',
    'bidweir.outcome': 'answer',
    'bidweir.request_id': id.slice(0, 64),
  })
  t.match(upstream, { name: 'POST', parent: bid.id, attributes: { 'url.full': supplier.url } })
  t.ok(before <= bid.start && bid.start <= upstream.start, 'in order')
  t.ok(upstream.start <= upstream.end && upstream.end <= bid.end, 'in order')
  t.same(sent('traceparent'), [`00-${traceOf('a')}-${upstream.id}-01`], 'ours is the parent')
  t.same(sent('tracestate'), ['x=1'])
  t.match(bid.resource, {
    'service.name': 'bidweir',
    'service.version': /^\d/,
    'host.name': hostname(),
    'process.pid': process.pid,
    'bidweir.location': 'local',
  })
  t.match(receiver.requests.at(-1), { url: '/v1/traces', headers: { 'x-tenant': 't1' } })

  await node.notify({ bid_id: 'b1', price: '0.5', svc_opd: won.svcOpd }, traceparent('b'))
  await node.notify({ bid_id: 'b2', price: 'x' }, traceparent('d'))
  const notices = () => [...receiver.spansOf(traceOf('b')), ...receiver.spansOf(traceOf('d'))]
  await until(() => notices().length === 2)
  const [taken, refused] = notices()
  t.match(taken, { name: 'GET /opd/imp', kind: 2, parent: caller })
  t.ok(taken!.start < taken!.end)
  t.same(taken!.attributes, {
    'http.request.method': 'GET',
    'http.route': '/opd/imp',
    'http.response.status_code': 200,
    'bidweir.notice.status': 'attributed',
    'bidweir.notice.attribution': 'context',
    'bidweir.bid_id': 'b1',
  })
  t.match(refused!.attributes, { 'http.response.status_code': 400 })
  t.notMatch(JSON.stringify(receiver.spans), won.svcOpd, 'no context in a span')
})

t.test('what is not sampled is sent on unchanged', async (t) => {
  const { node, sent } = await tracedNode(t, 0)
  await node.bid({ id: 'b1', headers: traceparent('e', '00') })
  t.same(sent('traceparent'), [traceparent('e', '00').traceparent])
  const invalid = `00-${'0'.repeat(32)}-${caller}-01`
  await node.bid({ id: 'b2', headers: { traceparent: invalid } })
  t.same(sent('traceparent'), [invalid])
  await node.bid({ id: 'b3' })
  t.same(sent('traceparent'), [])
  // A span that comes later says that the others would be here.
  await node.bid({ id: 'b4', headers: traceparent('f') })
  await until(() => receiver.spansOf(traceOf('f')).length === 2)
  t.same(receiver.spansOf(traceOf('e')), [])
  t.notOk(receiver.spans.some(({ parent }) => parent === ''))
})

t.test(
  'with a ratio of 1 each request without a trace begins one; failures are errors',
  async (t) => {
    const { node, supplier, sent } = await tracedNode(t, 1)
    const roots = () => receiver.spans.filter(({ parent }) => parent === '')
    await node.bid({ id: 'b1', headers: { traceparent: 'malformed', tracestate: 'x=1' } })
    await until(() => roots().length === 1)
    const [root] = roots()
    await until(() => receiver.spansOf(root!.trace).length === 2)
    const upstream = receiver.spansOf(root!.trace).find(({ kind }) => kind === 3)!
    t.same(sent('traceparent'), [`00-${root!.trace}-${upstream.id}-01`])
    t.same(sent('tracestate'), [], 'that of the caller belongs to its trace')
    await supplier.close()
    await t.rejects(node.bid({ id: 'b2', auction: 'auction-7' }), /204/)
    const failed = () =>
      roots().find(({ attributes }) => attributes['bidweir.request_id'] === 'auction-7')
    await until(() => failed() !== undefined)
    t.match(failed(), { status: 2, attributes: { 'bidweir.outcome': 'upstream_error' } })
  },
)

t.test('traces of callers are continued up to a limit; further ones are counted', async (t) => {
  const { node } = await tracedNode(t, 0)
  const limited = async () => (await node.metrics()).get('bidweir_spans_total{result="limited"}')!
  await until(async () => {
    await Promise.all(
      Array.from({ length: 150 }, (_, n) =>
        node.notify({ bid_id: `n${n}`, price: 'x' }, traceparent('9')),
      ),
    )
    return (await limited()) > 0
  })
  t.ok((await limited()) > 0)
})

t.test('worker processes export too', async (t) => {
  const supplier = await echoSupplier()
  const node = await startWorkers({ endpoint: supplier.url, more: tracing(1) })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const pids = () => new Set(receiver.spans.map(({ resource }) => resource['process.pid']))
  const [worker] = node.workers()
  await until(async () => {
    await node.bid({ id: 'b1' })
    return pids().has(worker!) && pids().has(node.bidweir.child.pid!)
  })
  const all = receiver.spans.filter(({ resource }) => resource['process.pid'] !== process.pid)
  await until(async () => {
    const exported = (await node.metrics()).get('bidweir_spans_total{result="exported"}')!
    return exported >= all.length
  })
  t.not(worker, node.bidweir.child.pid)
})

t.test('a reload switches tracing on and off', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const options = { endpoint: supplier.url, suppliers: ['id: acme'], folder }
  const node = await serveNode(options)
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const sent = async () => {
    await node.bid({ id: 'b1' })
    return supplier.requests.at(-1)!.headers.includes('traceparent')
  }
  t.notOk(await sent())
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(file, yamlOf({ ...options, more: tracing(1) }))
  await until(sent)
  writeFileSync(file, yamlOf(options))
  await until(async () => !(await sent()))
  t.equal((await node.metrics()).get('bidweir_restart_needed'), 0)
})

const span: Span = {
  ...{ traceId: traceOf('1'), spanId: caller, parentId: null, name: 'POST', kind: 'client' },
  ...{ start: 1, end: 2, attributes: {}, error: null },
}
const newCounts = () => ({ exported: 0, refused: 0, dropped: 0, limited: 0 })

t.test(
  'a collector that is away is tried again with the same spans; the queue is bounded',
  async (t) => {
    const warnings: string[] = []
    const log = {
      info() {},
      error() {},
      warn: (_: object, text: string) => void warnings.push(text),
    }
    const away = await otlpReceiver()
    t.teardown(() => away.close())
    away.statuses.push(503, 429)
    const counts = newCounts()
    const config = { endpoint: away.url, ratio: 1, headers: {} }
    const exporter = new SpanExporter(config, {}, counts, log)
    for (let n = 0; n < 5000; n++) exporter.addSpan(span)
    t.equal(counts.dropped, 904)
    await until(() => counts.exported === 4096)
    t.equal(away.spans.length, 4096, 'each once')
    t.same(
      away.requests.slice(0, 3).map(({ status }) => status),
      [503, 429, 200],
    )
    t.same(warnings, ['spans could not be exported'])
    away.statuses.push(400)
    exporter.addSpan(span)
    await until(() => counts.refused === 1)
    exporter.addSpan(span)
    await exporter.close()
    t.equal(counts.exported, 4097, 'the last ones are sent at the end')
  },
)
