/**
 * `npm run bench:proxy`: bidweir and its alternatives side by side, about an hour; `-- --quick` takes a few minutes.
 * `--proxies NAME,NAME` and `--only SECTION,SECTION` narrow it.
 */
import { type Bench, bench, type Run } from '../harness/bench.ts'
import type { Job, Outcome } from '../harness/caller.ts'
import { firstLine, haproxyVersion } from '../harness/machine.ts'
import { bars } from '../harness/plot.ts'
import { rss } from '../harness/process.ts'
import type { Block, Table } from '../harness/report.ts'
import { type Caller, startCaller, startOrigin } from '../harness/service.ts'
import { inTurns, medians, ratioOf, spread } from '../harness/statistics.ts'
import { besideOtherWork } from './beside.ts'
import { idleConnections } from './idle.ts'
import { costOfKeys } from './keys.ts'
import { type Running, startPeers, supplierIds } from './peers.ts'
import { profileOfRequests } from './profile.ts'
import { riseOfRate } from './rise.ts'
import { measureHandshakes, measureRoads } from './roads.ts'
import { stallsOfLoop } from './stalls.ts'
import { variation } from './variation.ts'
import { twoProcesses } from './workers.ts'

const options = {
  proxies: { value: '', help: 'names of proxies; all where none is given' },
}
type Options = typeof options
type Section = Bench<Options, State>['sections'][string]

interface State extends AsyncDisposable {
  caller: Caller
  supplier: Awaited<ReturnType<typeof startOrigin>>
  /** Started and warmed up when a section first needs them. */
  proxies(): Promise<Running[]>
}

type Sample = ReturnType<typeof sampleOf>
type Load = Partial<Extract<Job, { paths: readonly string[] }>>
type Case = Pick<Load, 'paths' | 'connections' | 'rate'> & { label: string }
interface Plan {
  title: string
  note?: string
  /** Names; none: all. */
  proxies?: readonly string[]
  cases: readonly Case[]
  /** Rounds and milliseconds of a window: of a whole run, of a quick one. */
  rounds: readonly [number, number]
  window: readonly [number, number]
  /** Milliseconds of each case before it is measured, for proxies that compile or keep a state for each supplier. */
  warmUp?: readonly [number, number]
  /** What takes turns: the proxies, case by case; the cases, proxy by proxy; or both, so that a minute's disturbance is in one round of all. */
  turns?: 'proxies' | 'cases' | 'both'
  blocks: (plan: Plan, all: Results, run: Run<Options>) => Block[]
}
/** Rows of proxies; a sample for each round and case. */
type Results = { name: string; job: string; samples: Map<string, Sample[]> }[]

/** Of the mix, before anything is measured, where a proxy compiles while it runs. */
const warmUp = { requests: 200_000, ms: 30_000 }

/** `cost`: CPU microseconds per request that was answered as it should be. */
function sampleOf(outcome: Outcome, bytes: number) {
  const { count, failed, seconds, p50, p90, p99, p999, cpu, watched } = outcome
  const idle = (us: number) => Math.max(0, 1 - us / (seconds * 1e6))
  return {
    ...{ p50, p90, p99, p999, failed, rss: bytes, rate: count / seconds },
    cost: watched[0]! / Math.max(1, count - failed),
    supplierIdle: idle(watched[1]!),
    sourceIdle: idle(cpu),
  }
}

async function measure(
  { caller, supplier }: Pick<State, 'caller' | 'supplier'>,
  proxy: Running,
  job: Load,
) {
  const pids = proxy.pids()
  const outcome = await caller.ask({
    ...{ port: proxy.port, paths: ['/bid/bench'], connections: 64, rate: 0 },
    ...{ warm: 700, measure: 3000, watch: [pids, [supplier.pid]], ...job },
  })
  return sampleOf(outcome, rss(pids))
}

const section = (plan: Plan): Section => ({
  title: plan.title,
  async run(run, state) {
    const firstCase = run.quick ? 1 : 0
    const started = await state.proxies()
    const proxies = started.filter(({ name }) => plan.proxies?.includes(name) ?? true)
    const results: Results = proxies.map(({ name, job }) => ({ name, job, samples: new Map() }))
    const window = { warm: run.quick ? 300 : 700, measure: plan.window[firstCase]! }
    const first = { warm: 0, measure: plan.warmUp?.[firstCase] ?? 0 }
    const subjectsOf = (cases: readonly Case[], some: readonly Running[]) =>
      cases.flatMap(({ label, ...load }) => some.map((proxy) => ({ label, load, proxy })))
    const groups = {
      proxies: plan.cases.map((one) => subjectsOf([one], proxies)),
      cases: proxies.map((proxy) => subjectsOf(plan.cases, [proxy])),
      both: [subjectsOf(plan.cases, proxies)],
    }[plan.turns ?? 'proxies']
    for (const group of groups) {
      if (first.measure > 0)
        for (const { proxy, load } of group.filter(({ proxy }) => proxy.compiles))
          await measure(state, proxy, { ...load, ...first })
      const all = await inTurns(plan.rounds[firstCase]!, group, async (subject, round) => {
        const { label, load, proxy } = subject
        const sample = await measure(state, proxy, { ...load, ...window })
        const { cost, rate, p99, failed } = sample
        run.say(
          `  ${round + 1} ${label} ${proxy.name}: ${cost.toFixed(1)} us, ${rate.toFixed(0)}/s, p99 ${p99} ms${failed > 0 ? `, ${failed} failed` : ''}`,
        )
        return sample
      })
      for (const [{ label, proxy }, samples] of all)
        results[proxies.indexOf(proxy)]!.samples.set(label, samples)
    }
    return [...(plan.note === undefined ? [] : [plan.note]), ...plan.blocks(plan, results, run)]
  },
})

const percent = (share: number) => `${Math.round(share * 100)} %`
const ms = (value: number) => value.toFixed(1)
const costsOf = (samples: readonly Sample[]) => samples.map(({ cost }) => cost)
const times = (ones: readonly Sample[], others: readonly Sample[]) =>
  ratioOf(costsOf(ones), costsOf(others)).toFixed(2)

/** Everything about one case, with ratios to those that others know. */
function full({ cases }: Plan, all: Results, run: Run<Options>): Block[] {
  const [{ label }] = cases as [Case]
  const rows = all.map(({ name, job, samples }) => ({
    ...{ name, job, samples: samples.get(label)! },
    ...medians(samples.get(label)!),
  }))
  const anchors = rows.filter(({ name }) => ['nginx', 'nginx + Lua', 'http-proxy'].includes(name))
  const nginx = rows.find(({ name }) => name === 'nginx')
  const variation = nginx === undefined ? [] : [run.steady('nginx itself', costsOf(nginx.samples))]
  const table: Table = {
    head: [
      ...['proxy', 'job', 'CPU us/request', ...anchors.map(({ name }) => `x ${name}`)],
      ...['requests/s', 'p50 ms', 'p90 ms', 'p99 ms', 'RSS MB', 'failed'],
      ...['supplier idle', 'source idle', 'varied'],
    ],
    rows: rows.map((row) => [
      ...[row.name, row.job, row.cost.toFixed(1)],
      ...anchors.map(({ samples }) => times(row.samples, samples)),
      ...[row.rate.toFixed(0), ms(row.p50), ms(row.p90), ms(row.p99)],
      ...[(row.rss / 1e6).toFixed(0), row.failed],
      ...[percent(row.supplierIdle), percent(row.sourceIdle)],
      percent(spread(costsOf(row.samples))),
    ]),
  }
  const title = 'CPU microseconds per request, the mix, 64 connections'
  const svg = bars(
    title,
    rows.map(({ name, cost }) => ({ label: name, value: cost, accent: name === 'bidweir' })),
  )
  return [table, ...variation, { file: 'RESULTS.svg', alt: title, svg }]
}

/** A row for each case, a column for each proxy. */
const matrix = (cell: (sample: Sample) => string) => (plan: Plan, all: Results) => [
  {
    head: ['', ...all.map(({ name }) => name)],
    rows: plan.cases.map(({ label }) => [
      label,
      ...all.map(({ samples }) => {
        const sample = medians(samples.get(label)!)
        return `${cell(sample)}${sample.failed > 0 ? ` (${sample.failed} failed)` : ''}`
      }),
    ]),
  },
]

/** CPU microseconds, and how much those of nginx vary over the rounds. */
function costs(plan: Plan, all: Results): Block[] {
  const [table] = matrix(({ cost }) => cost.toFixed(1))(plan, all)
  const { head, rows } = table!
  const [bidweir, nginx] = ['bidweir', 'nginx'].map((wanted) =>
    all.find(({ name }) => name === wanted),
  )
  if (bidweir === undefined || nginx === undefined) return [{ head, rows }]
  return [
    {
      head: [...head, 'bidweir x nginx', 'nginx varied'],
      rows: plan.cases.map(({ label }, index) => {
        const ofNginx = nginx.samples.get(label)!
        const ratio = times(bidweir.samples.get(label)!, ofNginx)
        return [...rows[index]!, ratio, percent(spread(costsOf(ofNginx)))]
      }),
    },
  ]
}

/** CPU microseconds, and those of the last case by those of the first. */
function growth(plan: Plan, all: Results): Block[] {
  const [table] = matrix(({ cost }) => cost.toFixed(1))(plan, all)
  const { head, rows } = table!
  const [few, many] = [plan.cases[0]!.label, plan.cases.at(-1)!.label]
  const ratios = all.map(({ samples }) => times(samples.get(many)!, samples.get(few)!))
  return [{ head, rows: [...rows, [`${many} by ${few}`, ...ratios]] }]
}

const short = { rounds: [15, 1], window: [1000, 300] } as const
const paths = (kind: string) => [`/bid/bench?kind=${kind}`]

async function open(run: Run<Options>): Promise<State> {
  await using stack = new AsyncDisposableStack()
  const supplier = stack.use(await startOrigin())
  const caller = stack.use(startCaller())
  let proxies: Running[] | undefined
  const long = run.quick
    ? { most: 20_000, measure: 3000 }
    : { most: warmUp.requests, measure: warmUp.ms }
  const held = stack.move()
  return {
    ...{ caller, supplier },
    async proxies() {
      if (proxies !== undefined) return proxies
      const wanted = run.options.proxies === '' ? [] : run.options.proxies.split(',')
      proxies = await startPeers(wanted, supplier.port, held, run.missing)
      for (const proxy of proxies.filter(({ compiles }) => compiles)) {
        const { rate } = await measure({ caller, supplier }, proxy, { ...long, warm: 0 })
        run.say(`${proxy.name}: warm-up at ${rate.toFixed(0)}/s`)
      }
      return proxies
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

await bench<Options, State>({
  folder: import.meta.dirname,
  title: 'bench/proxy',
  about:
    'Every proxy has one worker, and is between the same load source and the same supplier (raw sockets, ready bytes) on this machine. Rounds are interleaved, the proxies in turn in each, and figures are medians over rounds; ratios are medians of the ratios of single rounds, and only ratios within one run count. Proxies that compile while they run are warmed up with 200,000 requests of the mix or for 30 s. CPU is user + system time of the proxy and its children, as the kernel accounts it, over the requests answered in the window. "passes" hands responses on; "rewrites" lowers prices, expands macros and signs or encrypts a context for each bid; bidweir is measured with all that it does (learner, contexts, bid log, metrics). The mix is 70 % no-bids, 25 % bids of 3 KB, 5 % VAST of 12 KB, both with 13 macros in four fields, UTF-8 and escapes; requests are eight dense ones of 2.6 to 2.9 KB; heads have six fields; every id is new. Latency at a fixed rate counts from the moment a request was due (the source looks at the clock every millisecond).',
  options,
  programs: () => [firstLine('nginx', '-v'), haproxyVersion()],
  open,
  sections: {
    mix: section({
      title: 'The mix, closed loop, 64 connections',
      ...{ cases: [{ label: 'mix' }], rounds: [25, 2], window: [1000, 600], blocks: full },
    }),
    kinds: section({
      title: 'Each response alone: CPU microseconds per request',
      note: 'gzip is the 3 KB bid compressed: bidweir alone decodes, rewrites and encodes it again, everyone else hands it on as it is. Before a response is measured, proxies that compile get it for 4 s.',
      cases: ['no-bid', 'bid', 'vast', 'gzip'].map((label) => ({ label, paths: paths(label) })),
      ...{ ...short, warmUp: [4000, 0], blocks: costs },
    }),
    open: section({
      title: 'The mix at a fixed rate: latency p50 / p99 / p99.9, milliseconds',
      proxies: ['bidweir', 'nginx', 'nginx + Lua', 'HAProxy'],
      cases: [1000, 3000, 10_000, 20_000].map((rate) => ({ label: `${rate}/s`, rate })),
      ...{ rounds: [5, 1], window: [4000, 300], turns: 'both' },
      blocks: matrix(({ p50, p99, p999 }) => `${ms(p50)} / ${ms(p99)} / ${ms(p999)}`),
    }),
    connections: section({
      title: 'Connections: CPU microseconds per request, the mix',
      proxies: ['bidweir', 'nginx', 'HAProxy', 'http-proxy'],
      cases: [1, 16, 256, 1024, 4096].map((connections) => ({
        label: `${connections}`,
        connections,
      })),
      ...{ ...short, blocks: costs },
    }),
    suppliers: section({
      title: 'Suppliers in use: CPU microseconds per request, the mix',
      note: 'Each supplier has its own connections: 3,000 upstreams in nginx, 3,000 backends in HAProxy. Before it is measured, bidweir gets requests for each number of suppliers for 20 s: each has its state in the learner then. The numbers of suppliers take turns, one proxy after another.',
      proxies: ['bidweir', 'nginx', 'HAProxy'],
      cases: [2, 100, 3000].map((count) => ({
        ...{ label: `${count}`, paths: supplierIds.slice(0, count).map((id) => `/bid/${id}`) },
      })),
      // A connection that is idle for 4 s is closed: the turn of the same suppliers comes earlier. Single rounds give .3 to 2.7, so 30
      // of them have an error of .08.
      ...{ rounds: [90, 1], window: [500, 300], turns: 'cases' },
      ...{ warmUp: [20_000, 0], blocks: growth },
    }),
    bids: section({
      title: 'Bids in a response: CPU microseconds per request',
      proxies: ['bidweir', 'nginx', 'nginx + Lua', 'http-proxy + JSON'],
      cases: [1, 10, 100, 200].map((count) => ({
        label: `${count}`,
        paths: paths(`bids-${count}`),
      })),
      ...{ ...short, blocks: costs },
    }),
    roads: {
      title: 'TLS, gzip and chunks: CPU microseconds per request',
      run: (run, { caller, supplier }) => measureRoads(run, caller, supplier),
    },
    handshakes: {
      title: 'TLS handshakes: CPU microseconds per connection',
      run: (run, { caller, supplier }) => measureHandshakes(run, caller, supplier),
    },
    idle: {
      title: 'Idle connections of callers: bytes each',
      async run(run, state) {
        const held = ['bidweir', 'nginx', 'http-proxy']
        const proxies = (await state.proxies()).filter(({ name }) => held.includes(name))
        return idleConnections(run, proxies)
      },
    },
    beside: {
      title: 'Beside scrapes and reloads: latency at a fixed rate',
      run: (run, { caller, supplier }) => besideOtherWork(run, caller, supplier.url),
    },
    variation: {
      title: 'What the cost follows: the mix, closed loop, 64 connections',
      async run(run, state) {
        const proxies = await state.proxies()
        const two = proxies.filter(({ name }) => name === 'bidweir' || name === 'nginx')
        return variation(run, async (ms) => {
          const costs: Record<string, number> = {}
          for (const proxy of two)
            costs[proxy.name] = (await measure(state, proxy, { warm: 0, measure: ms })).cost
          return costs
        })
      },
    },
    keys: {
      title: 'Keys of endpoints: CPU microseconds of the exchange of a no-bid',
      run: (run) => costOfKeys(run),
    },
    profile: {
      title: 'Where the CPU time of a request goes',
      run: (run, { caller, supplier }) => profileOfRequests(run, caller, supplier.url),
    },
    stalls: {
      title: 'What the slowest requests wait for',
      run: (run, { caller, supplier }) => stallsOfLoop(run, caller, supplier.url),
    },
    rise: {
      title: 'When the rate rises after little work: latency, milliseconds',
      run: (run, { caller, supplier }) => riseOfRate(run, caller, supplier.url),
    },
    workers: {
      title: 'One and two processes of bidweir',
      run: (run, { caller, supplier }) => twoProcesses(run, caller, supplier.url),
    },
  },
})
