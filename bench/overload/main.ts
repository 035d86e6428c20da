/**
 * `npm run bench:overload`: goodput past a supplier's capacity (CONTRACT 3, overload), simulated and measured, and
 * of suppliers that are late whatever the load: bidweir
 * with its defaults, with `maxInFlight: N`, and HAProxy with `maxconn` and a queue where it is installed; and what the
 * limiter costs a request. About eight minutes; `--seconds` is that of each load.
 */
import { type Candidate, Gate } from '../../proxy/admission/gate.ts'
import { bench, type Run } from '../harness/bench.ts'
import { Child, startHaproxy } from '../harness/child.ts'
import { drive, type Latency, type Response } from '../harness/client.ts'
import { haproxyVersion } from '../harness/machine.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block, Cell } from '../harness/report.ts'
import { startService, supplier } from '../harness/service.ts'
import { requestHead } from '../harness/traffic.ts'
import { families } from './families.ts'
import { type Modelled, simulated } from './simulated.ts'

const options = {
  seconds: { value: 5, least: 1, help: 'of each load' },
  seeds: { value: 20, least: 1, help: 'of each family of simulated suppliers' },
  case: { value: '', help: 'the capacity of one case, such as 40/s' },
}
type OverloadRun = Run<typeof options>

interface Case extends Modelled {
  name: string
}

const small = { slots: 4, mean: 100, sigma: 0, deadline: 500, cancels: true }
const medium = { slots: 10, mean: 50, sigma: 0, deadline: 300, cancels: true }
const cases: readonly Case[] = [
  { name: '40/s', ...small },
  { name: '40/s, ignores aborts', ...small, cancels: false },
  { name: '200/s', ...medium },
  { name: '200/s, ignores aborts', ...medium, cancels: false },
  { name: '200/s, lognormal', ...medium, sigma: 0.5 },
  { name: '500/s', slots: 10, mean: 20, sigma: 0, deadline: 120, cancels: true },
]
const loads = [0.5, 2, 5, 10, 0.5]

const haproxyConfig = ({ slots, deadline }: Case, port: number, origin: number) => `defaults
  mode http
  timeout client 10s
  timeout connect 1s
  timeout server ${deadline}ms
  timeout queue ${Math.round(deadline / 4)}ms
listen bids
  bind 127.0.0.1:${port}
  option abortonclose
  server supplier 127.0.0.1:${origin} maxconn ${slots} maxqueue ${2 * slots}
`

interface Subject {
  name: (modelled: Case) => string
  start(modelled: Case, origin: number): Promise<AsyncDisposable & { port: number }>
}

const bidweir = (limit: (modelled: Case) => 'auto' | number): Subject => ({
  name: (modelled) => `bidweir, maxInFlight ${limit(modelled)}`,
  async start(modelled, origin) {
    const route = { timeout: `${modelled.deadline}ms`, maxInFlight: limit(modelled) }
    const service = await startService({
      suppliers: [supplier('acme', `http://127.0.0.1:${origin}/`, route)],
      log: { level: 'error' },
    })
    return Object.assign(service, { port: service.proxy })
  },
})
const haproxy: Subject = {
  name: ({ slots }) => `HAProxy, maxconn ${slots}`,
  start: (modelled, origin) => startHaproxy((port) => haproxyConfig(modelled, port, origin)),
}

const body = '{"id":"r","imp":[{"id":"1","banner":{"w":1}}]}'
const request = Buffer.from(`${requestHead('/bid/acme', body.length)}${body}`)
const none: Latency = { count: 0, p50: 0, p90: 0, p99: 0, p999: 0, max: 0 }

const kindOf = (deadline: number) => (response: Response) => {
  const { status, head, took } = response
  if (status === 200 && took <= deadline) return 'good'
  return status === 503 || /^x-bidweir-reason: overload/im.test(head) ? 'refused' : 'late'
}

/** Sends requests at a fixed rate, whether or not earlier ones have their responses: on an idle connection, or on a new one. */
async function row(modelled: Case, subject: string, port: number, times: number, seconds: number) {
  const capacity = (modelled.slots * 1000) / modelled.mean
  const { count, failed, kinds } = await drive({
    ...{ port, connections: 0, rate: capacity * times, warm: 0, measure: seconds * 1000 },
    ...{ next: () => request, kind: kindOf(modelled.deadline) },
  })
  const { good = none, refused = none, late = none } = kinds
  const possible = Math.min(count, capacity * seconds)
  const quantiles = ({ count, p50, p99 }: Latency) =>
    count === 0 ? ['–', '–'] : [p50.toFixed(0), p99.toFixed(0)]
  return [
    ...[modelled.name, subject, `${times}x`, `${((100 * good.count) / possible).toFixed(1)} %`],
    ...[...quantiles(good), refused.count, ...quantiles(refused), late.count + failed],
  ]
}

async function measured(run: OverloadRun): Promise<Block[]> {
  const seconds = run.quick ? 1 : run.options.seconds
  const subjects = [bidweir(() => 'auto'), bidweir(({ slots }) => slots)]
  if (haproxyVersion() === null) run.missing('HAProxy: haproxy not found')
  else subjects.push(haproxy)
  const chosen = cases.filter(({ name }) => name.startsWith(run.options.case))
  const rows: Cell[][] = []
  for (const modelled of run.quick ? chosen.slice(0, 1) : chosen)
    for (const subject of subjects) {
      const { slots, mean, sigma, cancels } = modelled
      const args = [slots, mean, sigma, cancels ? 'cancels' : 'ignores'].map(String)
      await using origin = new Child<never, number>(new URL('supplier.ts', import.meta.url), args)
      await using proxy = await subject.start(modelled, await origin.answer())
      for (const times of loads) {
        rows.push(await row(modelled, subject.name(modelled), proxy.port, times, seconds))
        run.say(`  ${rows.at(-1)!.join(' | ')}`)
      }
    }
  const head = ['capacity', 'proxy', 'load', 'goodput', 'good p50', 'good p99', 'refused']
  return [
    `${seconds} s of each load, one after another, from a cold start. Goodput is the share of what the supplier could have answered that was answered within the deadline; times in milliseconds, as the caller sees them.`,
    { head: [...head, 'refused p50', 'refused p99', 'late'], rows },
  ]
}

/** What the limiter costs a request below the limit: eight in flight, each answered after 20 ms. */
function cost({ quick }: OverloadRun): Block[] {
  const requests = quick ? 200_000 : 2_000_000
  const gate = new Gate()
  gate.configure(null, 8192, 0)
  const candidate = { due: 0, send() {}, refuse() {} } satisfies Candidate
  const pass = (from: number) => {
    for (let nth = 0; nth < requests; nth++) {
      const now = from + nth * 2.5
      candidate.due = now + 120
      gate.refuses(now + 120, now)
      gate.enter(candidate, now)
      if (nth >= 8) gate.finished(now - 20, now, true)
    }
    for (let nth = 0; nth < 8; nth++) gate.dropped(from, from + requests * 2.5)
  }
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 7; round++) {
    const us = cpuOf(() => pass(round * requests * 2.5), 1)
    best = Math.min(best, (us * 1000) / requests)
  }
  const before = process.memoryUsage().heapUsed
  pass(10 * requests * 2.5)
  const bytes = (process.memoryUsage().heapUsed - before) / requests
  return [`${best.toFixed(0)} ns of CPU time and ${bytes.toFixed(2)} bytes a request.`]
}

await bench({
  folder: import.meta.dirname,
  title: 'Overload',
  about:
    'Supplier, proxy and load share the machine: where HAProxy loses goodput too, the figures are those of the machine.',
  options,
  programs: () => [haproxyVersion()],
  sections: {
    simulated: { title: 'Simulated suppliers', run: simulated },
    families: {
      title: 'Load and lateness',
      run: ({ quick, options }) => families(quick ? 2 : options.seeds),
    },
    cost: { title: 'What the limiter costs below the limit', run: cost },
    measured: { title: 'Measured', run: measured },
  },
})
