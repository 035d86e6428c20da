import t from 'tap'
import { answers, mix, requestBodies } from '../../bench/proxy/bodies.ts'
import type { Sample } from '../../bench/proxy/harness.ts'
import { Histogram } from '../../bench/proxy/histogram.ts'
import { plan } from '../../bench/proxy/plan.ts'
import { bars } from '../../bench/proxy/plot.ts'
import { cpu, rss, tree } from '../../bench/proxy/process.ts'
import { median, report } from '../../bench/proxy/report.ts'

t.test('answers and requests have the sizes that the report claims', async (t) => {
  const size = (kind: string) => answers[kind]!.length
  t.ok(Math.abs(size('bid') - 3000) < 400, `${size('bid')}`)
  t.ok(Math.abs(size('vast') - 12_000) < 600, `${size('vast')}`)
  t.ok(size('gzip') < size('bid'))
  t.equal(mix.filter((answer) => answer === answers['no-bid']).length, 70)
  t.equal(mix.filter((answer) => answer === answers['vast']).length, 5)
  for (const body of requestBodies(50)) t.ok(body.length >= 2700 && body.length <= 3010)
})

t.test('quantiles of the histogram are within its step', async (t) => {
  const histogram = new Histogram()
  t.equal(histogram.quantile(0.99), 0)
  for (let ms = 1; ms <= 100; ms++) histogram.add(ms)
  t.ok(Math.abs(histogram.quantile(0.5) - 50) < 0.03)
  t.ok(Math.abs(histogram.quantile(0.99) - 99) < 0.03)
  histogram.add(1e9)
  t.equal(histogram.quantile(1), 2000)
})

const needsProc = { skip: process.platform === 'linux' ? (false as const) : '/proc not found' }

t.test('the kernel tells CPU time and memory of this process', needsProc, async (t) => {
  const pids = tree(process.pid)
  t.ok(pids.includes(process.pid))
  t.ok(cpu(pids) > 0)
  t.ok(rss([process.pid]) > 1e6)
  t.equal(cpu([2 ** 30]), 0)
})

const sample = (perRequest: number): Sample => ({
  ...{ perRequest, rate: 1, rss: 1e6, originIdle: 0.5, sourceIdle: 0.5, answers: 1, bad: 0 },
  ...{ seconds: 1, p50: 1, p90: 1, p99: 2, max: 3, cpu: 1, unsent: 0 },
})

t.test('the report shows ratios, and names what was not there', async (t) => {
  const [stage, kinds] = plan(true)
  const rows = [
    { subject: 'bidweir', label: 'mix', sample: median([sample(30), sample(10), sample(20)]) },
    { subject: 'nginx', label: 'mix', sample: sample(10) },
  ]
  const bid = [{ subject: 'bidweir', label: 'bid', sample: sample(7) }]
  const facts = {
    ...{ date: 'd', cpu: 'c', cores: 2, node: 'v26', commit: 'abc', versions: [], load: '0' },
    ...{ seconds: 1, quick: true, missing: [{ name: 'HAProxy', why: 'haproxy not found' }] },
  }
  const measured = [
    { stage: stage!, rows },
    { stage: kinds!, rows: bid },
  ]
  const text = report(measured, facts, new Map([['bidweir', 'rewrites']]))
  t.match(text, /\| bidweir \| rewrites \| 20\.0 \| 2\.00 \|/)
  t.match(text, /\| bid \| 7\.0 \|/)
  t.match(text, /- HAProxy: haproxy not found/)
  t.match(
    bars('a & b', [{ label: '<x>', value: 1, accent: true }]),
    /^<svg .*&lt;x&gt;.*<\/svg>\n$/,
  )
})
