/**
 * `npm run bench:load -- --url http://127.0.0.1:8080 --supplier demo --connections 64 --rate 2000 --duration 10 --body mix`:
 * drives a running instance. Fails if nothing was answered, or fewer requests than the rate asks for.
 */
import type { EventEmitter } from 'node:events'
import autocannon, { type Result } from 'autocannon'
import { mulberry32 } from '../../opd/base/random.ts'
import { publishers } from '../../service/demo/market.ts'
import { type BodyKind, busy, makeRequest } from '../../service/demo/requests.ts'
import { optionsOf } from '../harness/options.ts'

interface Tally {
  statuses: Map<string, number>
  /** `x-bidweir-reason` of the requests that the service refused. */
  reasons: Map<string, number>
}

interface Target {
  url: string
  connections: number
  /** Requests a second; 0: as fast as it goes. */
  rate: number
  body: string
}

/** With a smaller share of the rate, the rate was missed. */
const least = 0.97
const meanings: Readonly<Record<string, string>> = { '200': 'bids', '204': 'no-bids' }

type Figures = ReturnType<typeof figuresOf>

function figuresOf(target: Target, result: Result, { statuses, reasons }: Tally) {
  const { duration, errors, timeouts } = result
  const { p50, p90, p97_5, p99, max } = result.latency
  const responses = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const perSecond = responses / Math.max(duration, 1e-3)
  const failures: string[] = []
  if (responses === 0) failures.push(`no response from ${target.url}`)
  else if (perSecond < least * target.rate)
    failures.push(`rate missed: ${perSecond.toFixed(0)}/s of ${target.rate}/s`)
  return {
    ...{ target, duration, responses, perSecond, latencyMs: { p50, p90, p97_5, p99, max } },
    ...{ receivedBytesPerSecond: result.throughput.average, errors, timeouts, failures },
    statuses: Object.fromEntries([...statuses].sort()),
    reasons: Object.fromEntries([...reasons].sort()),
  }
}

function summary(figures: Figures): string {
  const { target, responses, latencyMs: ms } = figures
  const share = (part: number) =>
    `${part} (${((100 * part) / Math.max(1, responses)).toFixed(1)} %)`
  const rate = target.rate > 0 ? `${target.rate}/s wanted` : 'as fast as it goes'
  const times = Object.entries(ms).map(([name, value]) => `${name.replace('_', '.')} ${value} ms`)
  const requests = `${target.connections} connections, ${rate}, ${target.body} requests`
  const rows = [
    ['target', `${target.url}, ${requests}`],
    [
      'responses',
      `${responses} in ${figures.duration.toFixed(1)} s, ${figures.perSecond.toFixed(0)}/s`,
    ],
    ['latency', times.join(', ')],
    ['received', `${(figures.receivedBytesPerSecond / 1e6).toFixed(2)} MB/s`],
    ['errors', `${figures.errors} (${figures.timeouts} timeouts)`],
    ...Object.entries(figures.statuses).map(([code, count]) => [
      meanings[code] ?? code,
      share(count),
    ]),
    ...Object.entries(figures.reasons).map(([reason, count]) => [`  ${reason}`, share(count)]),
  ]
  return `${rows.map(([name, text]) => `${name!.padEnd(12)}${text}`).join('\n')}\n`
}

const kinds: readonly BodyKind[] = ['banner', 'video', 'native', 'audio', 'mix']
const given = optionsOf('load', {
  url: { value: 'http://127.0.0.1:8080', help: 'the origin', valid: URL.canParse },
  supplier: { value: 'demo', help: 'the supplier id' },
  connections: { value: 64, least: 1, help: 'keep-alive connections' },
  rate: { value: 0, help: 'requests a second; 0 is as fast as it goes' },
  duration: { value: 10, least: 1, help: 'seconds' },
  body: { value: 'mix', oneOf: kinds, help: 'the imps of the requests' },
  json: { value: false, help: 'print the figures as JSON' },
})
const target = {
  url: new URL(`/bid/${given.supplier}`, given.url).href,
  ...{ connections: given.connections, rate: given.rate, body: given.body },
}

/** Distinct bodies, sent in turn; every connection prepares all of them before it starts. */
function bodies(kind: BodyKind): string[] {
  const random = mulberry32(Date.now())
  const list = publishers(1)
  return Array.from(
    { length: 64 },
    (_, index) => makeRequest(`load-${index}`, busy(list, random), kind, random).body,
  )
}

const tally: Tally = { statuses: new Map(), reasons: new Map() }
const count = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1)
const running = autocannon({
  url: target.url,
  connections: given.connections,
  duration: given.duration,
  // autocannon sends a second's share of a connection back to back: its correction would add made-up latencies.
  ...(given.rate > 0 ? { overallRate: given.rate, ignoreCoordinatedOmission: true } : {}),
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-openrtb-version': '2.6' },
  requests: bodies(given.body as BodyKind).map((body) => ({
    body,
    onResponse(status, _body, _context, headers) {
      count(tally.statuses, String(status))
      for (const [name, value] of Object.entries(headers ?? {}))
        if (name.toLowerCase() === 'x-bidweir-reason') count(tally.reasons, String(value))
    },
  })),
})
// autocannon returns a promise that is also an emitter; its types have only the promise.
const emitter = running as unknown as EventEmitter & { stop(): void }
process.once('SIGINT', () => emitter.stop())
let second = 0
emitter.on('tick', ({ counter }: { counter: number }) => {
  if (++second > given.duration) return
  const wanted = given.rate > 0 ? ` of ${given.rate}` : ''
  process.stderr.write(`${second} s of ${given.duration}: ${counter}${wanted} responses\n`)
})
const figures = figuresOf(target, await running, tally)
process.stdout.write(given.json ? `${JSON.stringify(figures, null, 2)}\n` : summary(figures))
for (const why of figures.failures) process.stderr.write(`failed: ${why}\n`)
process.exitCode = figures.failures.length > 0 ? 1 : 0
