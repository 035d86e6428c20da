/** Scrapes of a real Prometheus 3, which parses them and answers queries. PROMETHEUS: the program that .ci/prometheus builds. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { Gauge, Registry, Summary } from 'prom-client'
import t from 'tap'
import { contentTypeOf, exposition } from '../../admin/http/exposition.ts'
import { HistogramSeries } from '../../opd/base/histogram-series.ts'
import { histogram, metricsOf, registerRows } from '../../opd/base/metrics.ts'
import { DurationHistogram, durationBuckets } from '../../proxy/metrics.ts'
import { endWithTest } from '../support/children.ts'
import { freePort } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const program = process.env['PROMETHEUS']
const skip = program === undefined && 'PROMETHEUS is not set'

interface Native {
  count: string
  sum: string
  /** Which of the bounds belong to the bucket, its bounds, its count. */
  buckets?: [number, string, string, string][]
}
interface Found {
  metric: Record<string, string>
  value?: [number, string]
  histogram?: [number, Native]
}

/** As docs/operations/monitoring.md says, and as Prometheus Operator makes it of the chart's ServiceMonitor. */
const documented = 'scrape_native_histograms: true'
const monitored = `scrape_protocols: [PrometheusProto, PrometheusText1.0.0, PrometheusText0.0.4]
    relabel_configs: [{target_label: __scrape_native_histograms__, replacement: "true"}]`

/** A Prometheus that scrapes `target`, and that is asked for native histograms by these lines of its configuration. */
async function startPrometheus(job: string, target: string, asks: string) {
  const folder = newFolder()
  const file = join(folder, 'prometheus.yaml')
  writeFileSync(
    file,
    `global: {scrape_interval: 1s}
scrape_configs:
  - job_name: ${job}
    ${asks}
    always_scrape_classic_histograms: true
    static_configs: [{targets: ["${target}"]}]
`,
  )
  const port = await freePort()
  const child = endWithTest(
    spawn(program!, [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ]),
  )
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  await until(() => /Server is ready/.test(said) || child.exitCode !== null)
  return {
    said: () => said,
    stop: () => child.kill(),
    async query(text: string): Promise<Found[]> {
      const response = await fetch(
        `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(text)}`,
      )
      const { data } = (await response.json()) as { data: { result: Found[] } }
      return data.result
    },
  }
}

/** A registry at `/metrics` as the admin listener has it, in Protocol Buffers. */
async function serveRegistry(registry: Registry) {
  const scrape = exposition(() => metricsOf(registry))
  const server = createServer((_request, response) => {
    void scrape('protobuf').then((bytes) =>
      response.writeHead(200, { 'content-type': contentTypeOf('protobuf') }).end(bytes),
    )
  })
  await new Promise<void>((listening) => {
    server.listen(0, '127.0.0.1', listening)
  })
  const { port } = server.address() as { port: number }
  return { target: `127.0.0.1:${port}`, close: () => server.close() }
}

/** A series by its name and labels. Prometheus 3 writes the bound 1 as 1.0. */
const seriesText = (name: string, labels: readonly (readonly [string, string])[]) =>
  [
    name,
    ...labels.map(
      ([label, text]) => `${label}=${label === 'le' ? Number(text.replace('+', '')) : text}`,
    ),
  ]
    .sort()
    .join()
const seriesOf = (text: string) =>
  [...text.matchAll(/^([a-z]\w*)(?:\{(.*)\})? /gm)].map(([, name, labels = '']) =>
    seriesText(
      name!,
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, text]) => [label!, text!] as const),
    ),
  )
const foundSeries = ({ metric: { __name__, job, instance, ...labels } }: Found) =>
  seriesText(__name__!, Object.entries(labels))

t.test('Prometheus stores the times of requests as native histograms', { skip }, async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true}'],
    auth: 'none',
  })
  const prometheus = await startPrometheus('bidweir', new URL(node.admin).host, documented)
  t.teardown(async () => {
    prometheus.stop()
    await node.stop()
    await supplier.close()
  })
  for (let n = 0; n < 40; n++) await node.bid({ id: `b${n}` })
  const name = 'bidweir_request_duration_seconds'
  let native: Native | undefined
  await until(async () => {
    native = (await prometheus.query(`${name}{ssp="acme"}`))[0]?.histogram?.[1]
    return native?.count === '40'
  })
  const metrics = await node.metrics()
  t.equal(Number(native!.sum), metrics.get(`${name}_sum{ssp="acme"}`))
  let sum = 0
  for (const [, , , count] of native!.buckets!) sum += Number(count)
  t.equal(sum, 40, 'the buckets have all of them')
  for (const { metric, value } of await prometheus.query(`${name}_bucket{ssp="acme"}`)) {
    const bound = Number(metric['le']!.replace('+Inf', 'Infinity'))
    let [least, most] = [0, 0]
    for (const [, lower, upper, count] of native!.buckets!) {
      if (Number(upper) <= bound) least += Number(count)
      if (Number(lower) < bound) most += Number(count)
    }
    const count = Number(value![1])
    t.ok(least <= count && count <= most, `${bound}: ${count} of ${least} to ${most}`)
  }
  const [p99] = await prometheus.query('histogram_quantile(0.99, bidweir_overhead_seconds)')
  t.ok(Number(p99!.value![1]) > 0)
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  let all: Found[] = []
  await until(async () => {
    all = await prometheus.query('{job="bidweir"}')
    const stored = new Set(all.filter(({ value }) => value !== undefined).map(foundSeries))
    return seriesOf(text).every((series) => stored.has(series))
  })
  t.equal(all.filter(({ histogram }) => histogram !== undefined).length, 3)
})

t.test('what Prometheus reads is what was counted, to the last bucket', { skip }, async (t) => {
  const registry = new Registry()
  const times = new DurationHistogram()
  for (const seconds of [0, 0.001, 0.00105, 0.00105, 0.0014, 0.05, 100]) times.observe(seconds)
  const series = new HistogramSeries('times', durationBuckets)
  const others = new DurationHistogram()
  others.observe(0)
  registerRows(registry, [
    histogram('times', 'a\\b\n"c"', () =>
      series.samples(
        [
          [{ ssp: 'a"\\\n\u20ac' }, times],
          [{ ssp: 'zero' }, others],
        ],
        { ssp: 'rest' },
      ),
    ),
  ])
  new Gauge({ name: 'endless', help: 'x', registers: [registry] }).set(Number.POSITIVE_INFINITY)
  new Gauge({ name: 'below', help: 'x', registers: [registry] }).set(-1.5)
  new Summary({ name: 'parts', help: 'x', percentiles: [0.5], registers: [registry] }).observe(3)
  const served = await serveRegistry(registry)
  const prometheus = await startPrometheus('made', served.target, monitored)
  t.teardown(() => {
    prometheus.stop()
    served.close()
  })
  let found: Found[] = []
  await until(async () => {
    found = await prometheus.query('{job="made"}')
    return found.some(({ metric }) => metric['__name__'] === 'up')
  })
  t.same(await prometheus.query('up == 0'), [], prometheus.said())
  const nativeOf = (ssp: string) =>
    found.find(({ metric, histogram }) => histogram !== undefined && metric['ssp'] === ssp)
      ?.histogram?.[1]
  const buckets = (nativeOf('a"\\\n\u20ac')?.buckets ?? []).map(([, lower, upper, count]) => {
    const rounded = [lower, upper].map((bound) => Number(bound).toPrecision(3)).join(' ')
    return `${rounded}: ${count}`
  })
  t.same(buckets, [
    '-0.0000305 0.0000305: 1',
    '0.000977 0.00106: 3',
    '0.00138 0.00151: 1',
    '0.0482 0.0526: 1',
    '29.3 32.0: 1',
  ])
  t.match(nativeOf('zero'), { count: '1', sum: '0' })
  const scalarOf = (name: string, labels: Record<string, string> = {}) =>
    found.find(
      ({ metric }) =>
        metric['__name__'] === name &&
        Object.entries(labels).every(([key, value]) => metric[key] === value),
    )?.value?.[1]
  t.equal(scalarOf('endless'), '+Inf')
  t.equal(scalarOf('below'), '-1.5')
  t.equal(scalarOf('parts', { quantile: '0.5' }), '3')
  t.equal(scalarOf('parts_sum'), '3')
  t.equal(scalarOf('times_bucket', { ssp: 'zero', le: '+Inf' }), '1')
})
