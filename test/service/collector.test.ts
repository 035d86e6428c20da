/** Spans through a real OpenTelemetry Collector, which parses them and sends them on. OTELCOL: the program that .ci/otel builds. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { endWithTest } from '../support/children.ts'
import { otlpReceiver } from '../support/otlp.ts'
import { freePort } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const program = process.env['OTELCOL']
const skip = program === undefined && 'OTELCOL is not set'

t.test('a collector takes the spans of a bid and of its notice', { skip }, async (t) => {
  const receiver = await otlpReceiver()
  const supplier = await echoSupplier()
  const port = await freePort()
  const file = join(newFolder(), 'collector.yaml')
  writeFileSync(
    file,
    `receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:${port}"}}}}
exporters: {otlp_http: {endpoint: "${receiver.url}", encoding: json, sending_queue: {batch: {flush_timeout: 100ms, min_size: 1}}}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
  telemetry: {metrics: {level: none}}
`,
  )
  const collector = endWithTest(spawn(program!, ['--config', `file:${file}`]))
  let said = ''
  collector.stderr!.on('data', (chunk) => {
    said += chunk
  })
  await until(() => /Everything is ready/.test(said) || collector.exitCode !== null)
  t.equal(collector.exitCode, null, said)
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true}'],
    auth: 'none',
    more: `tracing: {endpoint: "http://127.0.0.1:${port}", ratio: 0}`,
  })
  t.teardown(async () => {
    await node.stop()
    collector.kill()
    await supplier.close()
    await receiver.close()
  })
  const trace = 'a'.repeat(32)
  const headers = { traceparent: `00-${trace}-${'c'.repeat(16)}-01` }
  const { svcOpd } = await node.bid({ id: 'b1', headers })
  await node.notify({ bid_id: 'b1', price: '0.5', svc_opd: svcOpd }, headers)
  await until(() => receiver.spansOf(trace).length === 3)
  const named = (name: string) => receiver.spansOf(trace).find((span) => span.name === name)!
  const bid = named('POST /bid/{ssp}')
  t.match(bid, { kind: 2, parent: 'c'.repeat(16), attributes: { 'bidweir.ssp': 'acme' } })
  t.match(named('POST'), { kind: 3, parent: bid.id })
  t.match(named('GET /opd/imp').attributes, { 'bidweir.notice.status': 'attributed' })
  t.match(bid.resource, { 'service.name': 'bidweir', 'process.pid': process.pid })
  const exported = async () => (await node.metrics()).get('bidweir_spans_total{result="exported"}')
  await until(async () => (await exported()) === 3)
  const { 'user-agent': agent } = receiver.requests.at(-1)!.headers
  t.match(agent, /collector/i, 'the collector has sent them on')
})
