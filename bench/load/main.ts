/**
 * `npm run bench:load -- --url http://127.0.0.1:8080 --supplier demo --connections 64 --rate 2000 --duration 10 --body mix`:
 * drives a running instance. Fails if nothing was answered, or fewer requests than the rate asks for.
 */
import type { EventEmitter } from 'node:events'
import autocannon from 'autocannon'
import { mulberry32 } from '../../opd/shared/random.ts'
import { publishers } from '../../service/demo/market.ts'
import { type BodyKind, busy, makeRequest } from '../../service/demo/requests.ts'
import { optionsOf } from '../harness/options.ts'
import { figuresOf, summary, type Tally } from './summary.ts'

const kinds: readonly BodyKind[] = ['banner', 'video', 'native', 'audio', 'mix']
const given = optionsOf('load', {
  url: { value: 'http://127.0.0.1:8080', help: 'the origin', valid: (url) => URL.canParse(url) },
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
    (_, at) => makeRequest(`load-${at}`, busy(list, random), kind, random).body,
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
// What it returns is a promise and an emitter; its types know only the promise.
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
