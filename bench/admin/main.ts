/**
 * `npm run bench:admin`: win notices that are on disk, prices without the proxy, what both cost bid traffic, over HTTP
 * against the whole service, reports on 5 million wins, and token checks; about ten minutes. `--profile FOLDER` keeps CPU profiles.
 */
import { bench, type Run } from '../harness/bench.ts'
import type { Outcome } from '../harness/caller.ts'
import {
  type Cluster,
  mint,
  type StoreName,
  startCluster,
  stores,
  windowOf,
} from '../harness/cluster.ts'
import type { Block, Cell } from '../harness/report.ts'
import { startCaller } from '../harness/service.ts'
import { consoleCost } from './console.ts'
import { reports } from './reports.ts'
import { tokenCost } from './tokens.ts'

const names = Object.keys(stores).join()
const options = {
  seconds: { value: 6, least: 1, help: 'of each window' },
  connections: { value: 64, least: 1, help: 'of the notices' },
  rate: { value: 5000, least: 25, help: 'notices a second' },
  stores: {
    ...{ value: names, help: 'which ones, also of the reports' },
    valid: (text: string) => text.split(',').every((name) => name in stores),
  },
  rows: { value: 5_000_000, least: 10_000, help: 'wins of the reports' },
  profile: { value: '', help: 'a folder for CPU profiles' },
}
type AdminRun = Run<typeof options>

function timesOf({ quick, options: { seconds } }: AdminRun) {
  const measure = quick ? 1000 : seconds * 1000
  return { warm: Math.min(2000, measure / 2), measure }
}

const ms = (value: number) => value.toFixed(1)
const loop = (rate: number, what: string) => (rate === 0 ? 'closed loop' : `${rate} ${what}/s`)
const perSecond = ({ count, seconds }: Outcome, factor = 1) =>
  ((count * factor) / seconds).toFixed(0)
const failures = ({ failed, fault }: Outcome) => (failed === 0 ? 0 : `${failed} (${fault})`)

/** What `work` says, and the CPU microseconds for each bid or win of it. */
async function measured(cluster: Cluster, work: () => Promise<Outcome>) {
  const { cost, result } = await windowOf(cluster, work)
  return { outcome: result, cpu: cost.cpu / result.total }
}

async function notices(run: AdminRun): Promise<Block[]> {
  const rows: Cell[][] = []
  const { options } = run
  const { warm, measure } = timesOf(run)
  for (const store of options.stores.split(',') as StoreName[]) {
    const { absent } = stores[store]
    if (absent !== false) {
      run.missing(`${store}: ${absent}`)
      continue
    }
    await using cluster = await startCluster(store, 1, options.profile)
    await using caller = startCaller()
    const port = cluster.nodes[0]!.admin
    for (const rate of [0, options.rate]) {
      const most = ((rate || 3 * options.rate) * (warm + measure)) / 1000 + 1000
      await mint(caller, port, await cluster.token(), most)
      const before = await cluster.kept()
      const job = { what: 'notices', port, rate, warm, measure } as const
      const { outcome, cpu } = await measured(cluster, () =>
        caller.ask({ ...job, connections: options.connections }),
      )
      run.say(`  ${store}: ${perSecond(outcome)}/s, p99 ${outcome.p99} ms`)
      const stored = (await cluster.kept()).wins - before.wins
      rows.push([
        ...[store, loop(rate, 'notices'), perSecond(outcome), ms(outcome.p50), ms(outcome.p99)],
        ...[cpu.toFixed(0), outcome.total, stored, failures(outcome)],
      ])
    }
  }
  const head = ['store', 'load', 'wins/s', 'p50 ms', 'p99 ms', 'CPU us/win', 'acknowledged', 'rows']
  return [
    'Each notice is the first of its decision and carries the context that `POST /opd/<supplier>_yesbid` gave out. "rows" are what the ledger holds afterwards of what was acknowledged.',
    { head: [...head, 'failed'], rows },
  ]
}

async function prices(run: AdminRun): Promise<Block[]> {
  const { rate: most, profile } = run.options
  const cases = [
    [1, 0],
    [10, 0],
    [10, Math.round(most / 10)],
    [1, most],
  ] as const
  await using cluster = await startCluster('SQLite', 1, profile)
  await using caller = startCaller()
  const job = { what: 'prices', port: cluster.nodes[0]!.admin, connections: 16 } as const
  const token = await cluster.token()
  const rows: Cell[][] = []
  for (const [bids, rate] of cases) {
    const { outcome, cpu } = await measured(cluster, () =>
      caller.ask({ ...job, ...timesOf(run), token, bids, rate, most: Number.MAX_SAFE_INTEGER }),
    )
    run.say(`  ${bids} bids a call: ${cpu.toFixed(0)} us a bid, p99 ${outcome.p99} ms`)
    rows.push([
      ...[bids, loop(rate, 'calls'), perSecond(outcome, bids), ms(outcome.p50), ms(outcome.p99)],
      ...[cpu.toFixed(0), (1e6 / cpu).toFixed(0), failures(outcome)],
    ])
  }
  const head = ['bids a call', 'load', 'bids/s', 'p50 ms', 'p99 ms', 'CPU us/bid', 'bids/s a core']
  return [{ head: [...head, 'failed'], rows }]
}

/** Bid traffic alone, and beside notices and prices. */
async function bids(run: AdminRun): Promise<Block[]> {
  const beside = Math.round(run.options.rate / 25)
  const times = timesOf(run)
  await using cluster = await startCluster('SQLite', 1, run.options.profile)
  await using caller = startCaller()
  await using platform = startCaller()
  await using pricing = startCaller()
  const { proxy, admin: port } = cluster.nodes[0]!
  const token = await cluster.token()
  const rows: Cell[][] = []
  const add = (what: string, { p50, p90, p99, failed }: Outcome) =>
    rows.push([what, ms(p50), ms(p90), ms(p99), failed])
  const job = { port: proxy, paths: ['/bid/bench'], connections: 32, rate: 500, ...times }
  const other = { port, rate: beside, connections: 16, ...times }
  const most = Number.MAX_SAFE_INTEGER
  await caller.ask({ ...job, rate: 0 })
  for (let round = 0; round < (run.quick ? 1 : 3); round++) {
    add('alone', await caller.ask(job))
    await mint(platform, port, token, (beside * (times.warm + times.measure)) / 1000 + 100)
    const [outcome] = await Promise.all([
      caller.ask(job),
      platform.ask({ ...other, what: 'notices' }),
      pricing.ask({ ...other, what: 'prices', token, bids: 1, most }),
    ])
    add(`beside ${beside} notices/s and ${beside} prices/s`, outcome)
  }
  return [
    'In turns on one process.',
    { head: ['500 bid requests/s', 'p50 ms', 'p90 ms', 'p99 ms', 'failed'], rows },
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'bench/admin',
  about:
    'The whole service in one process; load source, supplier and database on the same cores. Latency at a fixed rate counts from the moment a request was due.',
  options,
  sections: {
    notices: { title: 'Wins over HTTP, on disk', run: notices },
    prices: { title: 'Standalone prices', run: prices },
    bids: { title: 'Bid traffic beside them', run: bids },
    reports: {
      title: 'Reports',
      run: (run) => reports(run, run.quick ? 100_000 : run.options.rows, run.options.stores),
    },
    tokens: { title: 'Token checks', run: tokenCost },
    console: { title: 'The console', run: consoleCost },
  },
})
