/**
 * `npm run bench:admin`: win notices that are on disk, prices without the proxy, what both cost bid traffic, over HTTP
 * against the whole service, reports on 5 million wins, and token checks; about ten minutes. `--profile FOLDER` keeps CPU profiles.
 */
import { bench, type Run } from '../harness/bench.ts'
import { Child } from '../harness/child.ts'
import type { Block, Cell } from '../harness/report.ts'
import { startSource } from '../harness/service.ts'
import type { Outcome } from '../harness/source.ts'
import { reports } from './reports.ts'
import { type Loaded, startLoaded, stores } from './service.ts'
import type { Job, Reported } from './source.ts'
import { tokenCost } from './tokens.ts'

const options = {
  seconds: { value: 6, least: 1, help: 'of each window' },
  connections: { value: 64, least: 1, help: 'of the notices' },
  rate: { value: 5000, least: 25, help: 'notices a second' },
  stores: { value: Object.keys(stores).join(','), help: 'which ones, also of the reports' },
  rows: { value: 5_000_000, least: 10_000, help: 'wins of the reports' },
  profile: { value: '', help: 'a folder for CPU profiles' },
}
type AdminRun = Run<typeof options>

type Platform = Child<Job, Reported>
const startPlatform = (): Platform => new Child(new URL('source.ts', import.meta.url))
function windowOf({ quick, options: { seconds } }: AdminRun) {
  const measure = quick ? 1000 : seconds * 1000
  return { warm: Math.min(2000, measure / 2), measure }
}

const jobFor = (run: AdminRun, to: Loaded, over: Partial<Job>): Job => ({
  ...{ what: 'notices', port: to.admin, token: to.token, rate: 0, bids: 10 },
  ...{ connections: run.options.connections, most: Number.MAX_SAFE_INTEGER },
  ...{ ...windowOf(run), ...over },
})

/** Contexts of the standalone handler: as many as will be reported at most. */
async function mint(run: AdminRun, platform: Platform, to: Loaded, most: number): Promise<void> {
  const job = { what: 'prices', connections: 4, warm: 0, measure: 500, bids: 100, most } as const
  for (let left = 0; left < most; ) ({ left } = await platform.ask(jobFor(run, to, job)))
}

const ms = (value: number) => value.toFixed(1)
const loop = (rate: number, what: string) => (rate === 0 ? 'closed loop' : `${rate} ${what}/s`)
const perSecond = ({ count, seconds }: Outcome, each = 1) => ((count * each) / seconds).toFixed(0)
const failures = ({ failed, fault }: Outcome) => (failed === 0 ? 0 : `${failed} (${fault})`)

async function withService(
  run: AdminRun,
  store: string,
  work: (to: Loaded, platform: Platform) => Promise<Cell[][]>,
): Promise<Cell[][]> {
  const to = await startLoaded(store, run.options.profile)
  const platform = startPlatform()
  try {
    return await work(to, platform)
  } finally {
    await Promise.all([platform.close(), to.stop()])
  }
}

async function notices(run: AdminRun): Promise<Block[]> {
  const rows: Cell[][] = []
  const { warm, measure } = windowOf(run)
  for (const store of run.options.stores.split(',')) {
    const absent = stores[store] === undefined ? 'no such store' : stores[store].absent
    if (absent !== false) {
      run.missing(`${store}: ${absent}`)
      continue
    }
    const ofStore = await withService(run, store, async (to, platform) => {
      const found: Cell[][] = []
      for (const rate of [0, run.options.rate]) {
        const most = ((rate || 3 * run.options.rate) * (warm + measure)) / 1000 + 1000
        await mint(run, platform, to, most)
        const [before, stored] = [to.cpu(), await to.rows()]
        const outcome = await platform.ask(jobFor(run, to, { rate }))
        const cost = (to.cpu() - before) / outcome.total
        run.say(`  ${store}: ${perSecond(outcome)}/s, p99 ${outcome.p99} ms`)
        found.push([
          ...[store, loop(rate, 'notices'), perSecond(outcome), ms(outcome.p50), ms(outcome.p99)],
          ...[cost.toFixed(0), outcome.total, (await to.rows()) - stored, failures(outcome)],
        ])
      }
      return found
    })
    rows.push(...ofStore)
  }
  const head = ['store', 'load', 'wins/s', 'p50 ms', 'p99 ms', 'CPU us/win', 'acknowledged', 'rows']
  return [
    'Each notice is the first of its decision and carries the context that `POST /opd/<supplier>_yesbid` gave out. "rows" are what the ledger holds afterwards of what was acknowledged.',
    { head: [...head, 'failed'], rows },
  ]
}

async function prices(run: AdminRun): Promise<Block[]> {
  const { rate: most } = run.options
  const cases = [
    [1, 0],
    [10, 0],
    [10, Math.round(most / 10)],
    [1, most],
  ] as const
  const rows = await withService(run, 'SQLite', async (to, platform) => {
    const found: Cell[][] = []
    for (const [bids, rate] of cases) {
      const before = to.cpu()
      const job = { what: 'prices', bids, rate, connections: 16 } as const
      const outcome = await platform.ask(jobFor(run, to, job))
      const cost = (to.cpu() - before) / outcome.total
      run.say(`  ${bids} bids a call: ${cost.toFixed(0)} us a bid, p99 ${outcome.p99} ms`)
      found.push([
        ...[bids, loop(rate, 'calls'), perSecond(outcome, bids), ms(outcome.p50), ms(outcome.p99)],
        ...[cost.toFixed(0), (1e6 / cost).toFixed(0), failures(outcome)],
      ])
    }
    return found
  })
  const head = ['bids a call', 'load', 'bids/s', 'p50 ms', 'p99 ms', 'CPU us/bid', 'bids/s a core']
  return [{ head: [...head, 'failed'], rows }]
}

/** Bid traffic alone, and beside notices and prices. */
async function bids(run: AdminRun): Promise<Block[]> {
  const beside = Math.round(run.options.rate / 25)
  const window = windowOf(run)
  const caller = startSource()
  const pricing = startPlatform()
  const rows = await withService(run, 'SQLite', async (to, platform) => {
    const found: Cell[][] = []
    const add = (what: string, { p50, p90, p99, failed }: Outcome) =>
      found.push([what, ms(p50), ms(p90), ms(p99), failed])
    const job = { port: to.proxy, paths: ['/bid/bench'], connections: 32, rate: 500, ...window }
    await caller.ask({ ...job, rate: 0 })
    for (let round = 0; round < (run.quick ? 1 : 3); round++) {
      add('alone', await caller.ask(job))
      await mint(run, platform, to, (beside * (window.warm + window.measure)) / 1000 + 100)
      const [outcome] = await Promise.all([
        caller.ask(job),
        platform.ask(jobFor(run, to, { rate: beside, connections: 16 })),
        pricing.ask(jobFor(run, to, { what: 'prices', bids: 1, rate: beside, connections: 16 })),
      ])
      add(`beside ${beside} notices/s and ${beside} prices/s`, outcome)
    }
    return found
  }).finally(() => Promise.all([caller.close(), pricing.close()]))
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
  // it takes twenty minutes
  file: (sections) => (sections.join() === 'reports' ? 'RESULTS-reports.md' : 'RESULTS.md'),
  sections: {
    notices: { title: 'Wins over HTTP, on disk', run: notices },
    prices: { title: 'Standalone prices', run: prices },
    bids: { title: 'Bid traffic beside them', run: bids },
    reports: {
      title: 'Reports',
      run: (run) => reports(run, run.quick ? 100_000 : run.options.rows, run.options.stores),
    },
    tokens: { title: 'Token checks', run: tokenCost },
  },
})
