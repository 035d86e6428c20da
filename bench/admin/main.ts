/**
 * `npm run bench:admin`: win notices that are on disk, prices without the proxy, token checks, and what they cost
 * bid traffic, over HTTP against the whole service; about three minutes. `-- --seconds 2` is quicker, `--only NAME,NAME`
 * narrows it (SQLite, PostgreSQL, "PostgreSQL and Redis", prices, bids, tokens), `--profile FOLDER` keeps CPU profiles.
 * RESULTS.md is written by a whole run, or with `--write`.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { tokenCost } from '../auth/cost.ts'
import type { Job as BidJob, Outcome as BidOutcome } from '../proxy/source.ts'
import { watchMachine } from './machine.ts'
import { type BidRow, type NoticeRow, type PriceRow, report } from './report.ts'
import { type Stand, stand, stores } from './service.ts'
import type { Job, Outcome } from './source.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '6' },
    connections: { type: 'string', default: '64' },
    rate: { type: 'string', default: '5000' },
    only: { type: 'string' },
    profile: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
})
const measure = Number(values.seconds) * 1000
const warm = Math.min(2000, measure / 2)
const connections = Number(values.connections)
const rate = Number(values.rate)
const wanted = (name: string) => values.only === undefined || values.only.split(',').includes(name)
const say = (text: string) => process.stderr.write(`${text}\n`)

/** A child that does one job after the other. */
class Source<J extends object, O extends object> {
  readonly #child: ChildProcess
  constructor(file: string) {
    this.#child = fork(new URL(file, import.meta.url))
  }
  async run(job: J): Promise<O> {
    this.#child.send(job)
    for (;;) {
      const [answer] = (await once(this.#child, 'message')) as [O | { phase: string; outcome: O }]
      if (!('phase' in answer)) return answer
      if (answer.phase === 'done') return answer.outcome
    }
  }
  close(): void {
    this.#child.kill()
  }
}
const platform = () => new Source<Job, Outcome>('./source.ts')

const jobFor = (to: Stand, over: Partial<Job>): Job => ({
  ...{ what: 'notices', port: to.adminPort, token: to.token, connections, rate: 0 },
  ...{ warm, measure, bids: 10, most: Number.MAX_SAFE_INTEGER, ...over },
})

/** Contexts of the standalone handler: as many as will be reported at most. */
async function mint(source: Source<Job, Outcome>, to: Stand, most: number): Promise<void> {
  for (let left = 0; left < most; )
    left = (
      await source.run(
        jobFor(to, { what: 'prices', connections: 4, warm: 0, measure: 500, bids: 100, most }),
      )
    ).left
}

async function notices(store: string): Promise<NoticeRow[]> {
  const to = await stand(store, values.profile)
  const source = platform()
  const rows: NoticeRow[] = []
  try {
    for (const each of [0, rate]) {
      await mint(source, to, ((each || 3 * rate) * (warm + measure)) / 1000 + 1000)
      const [before, stored] = [to.cpu(), await to.rows()]
      const outcome = await source.run(jobFor(to, { rate: each }))
      const [perNotice, kept] = [(to.cpu() - before) / outcome.total, (await to.rows()) - stored]
      say(`${store}: ${(outcome.answers / outcome.seconds).toFixed(0)}/s, p99 ${outcome.p99} ms`)
      rows.push({ store, rate: each, outcome, perNotice, kept })
    }
  } finally {
    source.close()
    await to.stop()
  }
  return rows
}

async function prices(): Promise<PriceRow[]> {
  const to = await stand('SQLite', values.profile)
  const source = platform()
  const rows: PriceRow[] = []
  try {
    for (const [bids, calls] of [
      [1, 0],
      [10, 0],
      [10, rate / 10],
      [1, rate],
    ] as const) {
      const before = to.cpu()
      const outcome = await source.run(
        jobFor(to, { what: 'prices', bids, rate: calls, connections: 16 }),
      )
      const perBid = (to.cpu() - before) / outcome.total
      say(`${bids} bids a call: ${perBid.toFixed(0)} us a bid, p99 ${outcome.p99} ms`)
      rows.push({ bids, rate: calls, outcome, perBid })
    }
  } finally {
    source.close()
    await to.stop()
  }
  return rows
}

/** Bid traffic alone, and beside notices and prices; in turns, so that the machine's moods meet both. */
async function bids(): Promise<BidRow[]> {
  const to = await stand('SQLite', values.profile)
  const [platforms, pricing] = [platform(), platform()]
  const caller = new Source<BidJob, BidOutcome>('../proxy/source.ts')
  const rows: BidRow[] = []
  const paths = ['/bid/bench']
  const job = { port: to.proxyPort, paths, connections: 32, rate: 500, warm, measure }
  const beside = rate / 25
  try {
    await caller.run({ ...job, rate: 0 })
    for (let round = 0; round < 3; round++) {
      rows.push({ beside: 0, outcome: await caller.run(job) })
      await mint(platforms, to, (beside * (warm + measure)) / 1000 + 100)
      const [outcome] = await Promise.all([
        caller.run(job),
        platforms.run(jobFor(to, { rate: beside, connections: 16 })),
        pricing.run(jobFor(to, { what: 'prices', bids: 1, rate: beside, connections: 16 })),
      ])
      rows.push({ beside, outcome })
      say(`bids: p99 ${rows.at(-2)!.outcome.p99} ms alone, ${outcome.p99} ms beside the others`)
    }
  } finally {
    for (const each of [platforms, pricing, caller]) each.close()
    await to.stop()
  }
  return rows
}

const load = loadavg()[0]!.toFixed(2)
const machine = watchMachine()
const began = performance.now()
const missing = stores.flatMap(({ name, absent }) =>
  absent === false ? [] : [`${name}: ${absent}`],
)
const results = {
  notices: [] as NoticeRow[],
  prices: wanted('prices') ? await prices() : [],
  bids: wanted('bids') ? await bids() : [],
  tokens: wanted('tokens') ? await tokenCost() : null,
}
for (const { name, absent } of stores)
  if (absent === false && wanted(name)) results.notices.push(...(await notices(name)))
const seconds = (performance.now() - began) / 1000
const text = report(results, { load, seconds, missing, others: machine() })
process.stdout.write(text)
if (values.write || values.only === undefined)
  writeFileSync(new URL('RESULTS.md', import.meta.url), text)
