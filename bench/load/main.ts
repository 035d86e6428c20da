/**
 * `npm run bench:load -- --url http://127.0.0.1:8080 --supplier demo --connections 64 --rate 2000
 * --duration 10 --body mix`: drives a running instance and says what came back. Rate 0: as fast as it goes.
 */
import { parseArgs } from 'node:util'
import autocannon from 'autocannon'
import { mulberry32 } from '../../opd/shared/random.ts'
import { publishers } from '../../service/demo/market.ts'
import { type BodyKind, busy, makeRequest } from '../../service/demo/requests.ts'
import { summary, type Tally } from './summary.ts'

const kinds: readonly BodyKind[] = ['banner', 'video', 'native', 'audio', 'mix']
const usage = `usage: npm run bench:load -- [--url ORIGIN] [--supplier ID] [--connections N] [--rate N] [--duration SECONDS] [--body ${kinds.join('|')}]`

function options() {
  const { values } = parseArgs({
    options: {
      url: { type: 'string', default: 'http://127.0.0.1:8080' },
      supplier: { type: 'string', default: 'demo' },
      connections: { type: 'string', default: '64' },
      rate: { type: 'string', default: '0' },
      duration: { type: 'string', default: '10' },
      body: { type: 'string', default: 'mix' },
    },
  })
  const number = (name: 'connections' | 'rate' | 'duration', least: number) => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < least)
      throw new Error(`--${name}: a whole number from ${least}, not ${values[name]}`)
    return value
  }
  if (!URL.canParse(values.url)) throw new Error(`--url: an origin, not ${values.url}`)
  const body = kinds.find((kind) => kind === values.body)
  if (body === undefined) throw new Error(`--body: ${kinds.join(', ')}, not ${values.body}`)
  return {
    url: new URL(`/bid/${values.supplier}`, values.url).href,
    connections: number('connections', 1),
    rate: number('rate', 0),
    duration: number('duration', 1),
    body,
  }
}

type Headers = autocannon.Request['headers']

/** Distinct bodies, sent in turn; every connection prepares all of them before it starts. */
function bodies(kind: BodyKind): string[] {
  const random = mulberry32(Date.now())
  const list = publishers(1)
  return Array.from(
    { length: 64 },
    (_, at) => makeRequest(`load-${at}`, busy(list, random), kind, random).body,
  )
}

async function main(): Promise<number> {
  let given: ReturnType<typeof options>
  try {
    given = options()
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`)
    return 64
  }
  const tally: Tally = { statuses: new Map(), reasons: new Map() }
  const count = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1)
  const running = autocannon({
    url: given.url,
    connections: given.connections,
    duration: given.duration,
    // autocannon sends a second's share of a connection back to back: its correction would add made-up latencies.
    ...(given.rate > 0 ? { overallRate: given.rate, ignoreCoordinatedOmission: true } : {}),
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-openrtb-version': '2.6' },
    requests: bodies(given.body).map((body) => ({
      body,
      onResponse(status: number, _body: string, _context: object, headers: Headers) {
        count(tally.statuses, String(status))
        for (const [name, value] of Object.entries(headers ?? {}))
          if (name.toLowerCase() === 'x-bidweir-reason') count(tally.reasons, String(value))
      },
    })),
  })
  process.once('SIGINT', () => (running as unknown as { stop(): void }).stop())
  const result = await running
  process.stdout.write(summary(given, result, tally))
  return result.errors > 0 && result.requests.total === 0 ? 1 : 0
}

process.exitCode = await main()
