/** What an open console costs the thread that carries bids, and what figures by minute take. */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { readMinutes } from '../../admin/fleet/minutes.ts'
import { hour } from '../../admin/store/hour.ts'
import { openStore } from '../../admin/store/index.ts'
import { minute, minuteSums } from '../../admin/store/minute-sums.ts'
import { Minutes } from '../../admin/store/minutes.ts'
import type { Run } from '../harness/bench.ts'
import { newFolder } from '../harness/child.ts'
import type { Block, Cell } from '../harness/report.ts'
import { logIn, startOrigin, startService, supplier } from '../harness/service.ts'
import { median } from '../harness/statistics.ts'
import type { Stalls } from '../proxy/stall-probe.ts'

/** Milliseconds between two polls of a console. */
const pollEvery = 3000

type Progress = Omit<Run, 'options'>

const log = { info() {}, warn() {}, error() {} }

/** CPU microseconds of the main thread of a process. */
const mainThread = (pid: number) =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1000

/** A service with bids of every supplier, and an administrator. */
async function consoleService(count: number, probe?: URL) {
  const password = randomBytes(12).toString('hex')
  await using stack = new AsyncDisposableStack()
  const origin = stack.use(await startOrigin())
  const ids = Array.from({ length: count }, (_, n) => `supplier-${n}`)
  const service = stack.use(
    await startService(
      {
        admin: { listen: '127.0.0.1:0', auth: { embedded: { adminPassword: password } } },
        suppliers: ids.map((id) => supplier(id, `${origin.url}?kind=bid`)),
      },
      probe === undefined ? {} : { probe },
    ),
  )
  const base = `http://127.0.0.1:${service.admin}`
  const bid = async (id: string) => {
    const response = await fetch(`http://127.0.0.1:${service.proxy}/bid/${id}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"id":"r","imp":[{"id":"1","banner":{"w":300,"h":250}}],"tmax":2000}',
    })
    await response.arrayBuffer()
  }
  const round = async () => {
    for (let start = 0; start < ids.length; start += 16)
      await Promise.all(ids.slice(start, start + 16).map(bid))
  }
  const headers = {
    authorization: `Bearer ${await logIn(service.admin, password)}`,
    'accept-encoding': 'gzip',
  }
  for (let n = 0; n < 5; n++) await round()
  const held = stack.move()
  return { service, base, round, headers, [Symbol.asyncDispose]: () => held.disposeAsync() }
}

/** What the screens of the console read, beside reports, minutes and replays, which have threads. `NODE`: the id of the node. */
const screens = [
  '/api/svc/live/list/',
  '/api/svc/live/list/?node=NODE',
  '/api/svc/live/?ssp=supplier-1',
  '/api/svc/live/',
  '/api/svc/funnel/',
  '/api/svc/ssp/',
  '/api/svc/suppliers/',
  '/api/svc/configuration/',
  '/api/svc/reports/summary',
  '/api/svc/minutes/',
] as const

/** The longest turn of the event loop, CPU time, while each call is answered: of several. */
async function turns(run: Progress, count: number): Promise<Cell[][]> {
  const probe = new URL('../proxy/stall-probe.ts', import.meta.url)
  await using started = await consoleService(count, probe)
  const { service, base, headers } = started
  const read = async (path: string) => {
    const response = await fetch(base + path, { headers })
    if (!response.ok) throw new Error(`${path}: ${response.status}`)
    return response
  }
  const { node } = (await (await read('/api/svc/live/?ssp=supplier-1')).json()) as { node: string }
  const rows: Cell[][] = []
  for (const path of screens) {
    const longest: number[] = []
    for (let n = 0; n < (run.quick ? 2 : 8); n++) {
      // figures are used again for two seconds
      await wait(run.quick ? 0 : 2100)
      await service.probe()
      await (await read(path.replace('NODE', encodeURIComponent(node)))).arrayBuffer()
      const { stalls } = await service.probe<Stalls>()
      longest.push(Math.max(0, ...stalls.map(({ cpu }) => cpu)))
    }
    run.say(`  ${count} suppliers, ${path}: ${longest.map((ms) => ms.toFixed(1)).join(' ')} ms`)
    rows.push([path, count, median(longest).toFixed(1), Math.max(...longest).toFixed(1)])
  }
  return rows
}

/** Polls of one tab: each after bids of every supplier, so that all figures have changed. */
async function polls(run: Progress, count: number): Promise<Cell[][]> {
  await using started = await consoleService(count)
  const { service, base, round, headers } = started
  const rows: Cell[][] = []
  for (const [what, first, next] of [
    ['everything, as an API client reads it', '/api/svc/live/', () => '/api/svc/live/'],
    [
      'the list, as the console polls it',
      '/api/svc/live/list/',
      (tag: string) => `/api/svc/live/list/?since=${tag}`,
    ],
  ] as const) {
    const { status } = await fetch(base + first, { headers })
    if (status !== 200) continue
    const costs: number[] = []
    const sizes: number[] = []
    let tag = ''
    for (let n = 0; n < (run.quick ? 3 : 10); n++) {
      await Promise.all([round(), wait(run.quick ? 0 : pollEvery)])
      const before = mainThread(service.pid)
      const response = await fetch(base + (tag === '' ? first : next(tag)), {
        headers,
      })
      const sent = Number(response.headers.get('content-length'))
      const body = (await response.json()) as { tag?: string }
      costs.push((mainThread(service.pid) - before) / 1000)
      sizes.push(sent)
      tag = body.tag ?? ''
    }
    run.say(`  ${count} suppliers, ${what}: ${median(costs)} ms, ${median(sizes)} bytes`)
    rows.push([count, what, median(costs).toFixed(1), (median(sizes) / 1000).toFixed(1)])
  }
  return rows
}

/** Figures by minute of `suppliers`: what one write costs this thread, a row the disk, and a reader its thread. */
async function minutes(suppliers: number, hours: number): Promise<Cell[]> {
  using folder = newFolder()
  const file = join(folder.path, 'm.db')
  const store = await openStore(`sqlite:${file}`, { now: Date.now, log })
  const figures = new Minutes(store, log)
  const sums = Float64Array.from(minuteSums, (_, index) => 17 * index + (index > 20 ? 0.37 : 0))
  const end = Date.now() - (Date.now() % hour)
  const costs: number[] = []
  for (let time = end - hours * hour; time < end; time += minute) {
    for (let n = 0; n < suppliers; n++) figures.addSums(`supplier-${n}`, time, sums)
    figures.addSums('', time, sums)
    const began = performance.eventLoopUtilization()
    await figures.flush()
    costs.push(performance.eventLoopUtilization(began).active)
  }
  await sql`vacuum`.execute(store.db)
  const count = suppliers * hours * 60
  using database = new DatabaseSync(file, { readOnly: true })
  const { bytes } = database
    .prepare('select page_count * page_size as bytes from pragma_page_count, pragma_page_size')
    .get() as { bytes: number }
  const reads: number[] = []
  for (let n = 0; n < 7; n++) {
    const began = performance.now()
    await readMinutes(store, {
      ...{ suppliers: ['supplier-1'], only: 'supplier-1', from: end - 24 * hour, to: end },
      ...{ step: 5 * minute, now: end, currency: 'USD' },
    })
    reads.push(performance.now() - began)
  }
  await store.close()
  return [
    ...[suppliers, hours, (bytes / count).toFixed(0), (bytes / 1e6).toFixed(0)],
    ...[median(costs).toFixed(1), median(reads).toFixed(0)],
  ]
}

export async function consoleCost(run: Progress): Promise<Block[]> {
  const rows: Cell[][] = []
  for (const count of run.quick ? [20] : [300, 1000]) rows.push(...(await polls(run, count)))
  const longest = await turns(run, run.quick ? 20 : 1000)
  const kept = [await minutes(run.quick ? 20 : 300, run.quick ? 1 : 8)]
  return [
    'A poll every 3 s, as of an open console. Before each, every supplier has bids.',
    { head: ['suppliers', 'poll', 'main thread ms', 'KB sent'], rows },
    'What the screens read: the longest turn of the event loop meanwhile, CPU time. A turn below 2.5 ms counts as 0.',
    { head: ['call', 'suppliers', 'median ms', 'longest ms'], rows: longest },
    'Figures by minute, on SQLite. A write of a minute is in slices.',
    {
      head: [
        'suppliers',
        'hours',
        'bytes a row',
        'MB',
        'main thread ms a write',
        'read of 24 h ms',
      ],
      rows: kept,
    },
  ]
}
