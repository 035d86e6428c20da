import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { drive, type Load } from '../../bench/harness/client.ts'
import { bars, curves } from '../../bench/harness/plot.ts'
import { cpu, rss, tree } from '../../bench/harness/process.ts'
import { json, markdown } from '../../bench/harness/report.ts'
import {
  Histogram,
  inTurns,
  median,
  medians,
  spread,
  standardError,
} from '../../bench/harness/statistics.ts'

t.test('quantiles of the histogram are within its step', async (t) => {
  const histogram = new Histogram()
  t.equal(histogram.quantile(0.99), 0)
  for (let ms = 1; ms <= 100; ms++) histogram.addTime(ms)
  t.ok(Math.abs(histogram.quantile(0.5) - 50) < 0.03)
  t.ok(Math.abs(histogram.quantile(0.99) - 99) < 0.03)
  histogram.addTime(1e9)
  t.equal(histogram.quantile(1), 2000)
  t.equal(histogram.count, 101)
})

t.test('medians, spread and standard error', async (t) => {
  t.equal(median([30, 10, 20]), 20)
  t.strictSame(
    medians([
      { a: 1, b: 9 },
      { a: 3, b: 7 },
      { a: 2, b: 8 },
    ]),
    { a: 2, b: 8 },
  )
  t.ok(Math.abs(spread([10, 11.5, 10.4]) - 0.15) < 1e-9)
  t.ok(Math.abs(standardError([1, 2, 3]) - 1 / Math.sqrt(3)) < 1e-12)
})

t.test('each round begins with the next subject', async (t) => {
  const order: string[] = []
  const results = await inTurns(2, ['a', 'b', 'c'], (subject, round) => {
    order.push(subject)
    return round
  })
  t.strictSame(order, ['a', 'b', 'c', 'b', 'c', 'a'])
  t.strictSame(results.get('a'), [0, 1])
})

const report = {
  ...{ title: 'T', facts: 'on a machine', about: 'What it is.', missing: ['HAProxy: not found'] },
  refused: [],
  sections: [
    {
      ...{ key: 'one', title: 'One' },
      blocks: [
        'A note.',
        { head: ['proxy', 'us'], rows: [['nginx', 10]] },
        { file: 'RESULTS.svg', alt: 'a plot', svg: '<svg/>' },
      ],
    },
  ],
}

t.test(
  'a report as Markdown names what was left out and why it must not be published',
  async (t) => {
    const text = markdown(report)
    t.match(text, '## One\n\nA note.\n\n| proxy | us |\n| --- | --: |\n| nginx | 10 |\n')
    t.match(text, '![a plot](RESULTS.svg)')
    t.match(text, '## Not measured\n\n- HAProxy: not found\n')
    t.notMatch(text, 'Not to be published')
    t.match(
      markdown({ ...report, refused: ['too busy'] }),
      '## Not to be published\n\n- too busy\n',
    )
  },
)

t.test('a report as JSON has a list of objects for each table', async (t) => {
  const { sections, missing } = JSON.parse(json(report))
  t.strictSame(sections, { one: [[{ proxy: 'nginx', us: 10 }]] })
  t.strictSame(missing, ['HAProxy: not found'])
})

t.test('plots escape what they show', async (t) => {
  t.match(
    bars('a & b', [{ label: '<x>', value: 1, accent: true }]),
    /^<svg .*a &amp; b.*&lt;x&gt;.*<\/svg>\n$/,
  )
  const svg = curves('t', 'x', 'y', [
    {
      name: '<x>',
      points: [
        [0, 1],
        [1, 2],
      ],
    },
  ])
  t.match(svg, /<polyline points="[\d., ]+"[\s\S]*&lt;x&gt;/)
})

const needsProc = { skip: process.platform === 'linux' ? (false as const) : '/proc not found' }

t.test('the kernel tells CPU time and memory of this process', needsProc, async (t) => {
  const pids = tree(process.pid)
  t.ok(pids.includes(process.pid))
  t.ok(cpu(pids) > 0)
  t.ok(rss([process.pid]) > 1e6)
  t.equal(cpu([2 ** 30]), 0)
})

/** A service that answers `/ok` with 200 and a body, `/close` in the same way before it closes, and else breaks off. */
async function startTarget(t: Test): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === '/close') response.setHeader('connection', 'close')
    if (request.url === '/lost') request.socket.destroy()
    else request.resume().on('end', () => response.end('{"n":1}'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

const load = (port: number, paths: string[], more: Partial<Load> = {}): Load => {
  const left = [...paths]
  return {
    ...{ port, connections: 1, rate: 0, warm: 0, measure: 60_000 },
    next() {
      const path = left.shift()
      return path === undefined ? null : Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    },
    kind: ({ status, body }) => (status === 200 && body() === '{"n":1}' ? 'good' : 'failed'),
    ...more,
  }
}

t.test('a closed loop sends each request once, over connections that end too', async (t) => {
  const port = await startTarget(t)
  const outcome = await drive(load(port, ['/ok', '/close', '/ok', '/lost', '/ok']))
  t.equal(outcome.kinds['good']?.count, 4)
  t.equal(outcome.failed, 1)
  t.equal(outcome.fault, 'connection lost')
  t.equal(outcome.count, 5)
})

t.test('at a rate every request that was due is answered before the run ends', async (t) => {
  const port = await startTarget(t)
  const paths = Array<string>(1000).fill('/ok')
  for (const connections of [0, 2]) {
    const options = { connections, rate: 200, measure: 300 }
    const { count, failed, kinds, seconds } = await drive(load(port, paths, options))
    t.ok(count >= 50 && count < 1000, `${count}`)
    t.equal(kinds['good']?.count, count)
    t.equal(failed, 0)
    t.ok(seconds >= 0.3)
  }
})
