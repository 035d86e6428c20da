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
import { startOrigin, startService, supplier } from '../harness/service.ts'
import { median } from '../harness/statistics.ts'

/** Milliseconds between two polls of a console. */
const pollEvery = 3000

type Progress = Omit<Run, 'options'>

const log = { info() {}, warn() {}, error() {} }

/** CPU microseconds of the main thread of a process. */
const mainThread = (pid: number) =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1000

/** Polls of one tab: each after bids of every supplier, so that all figures have changed. */
async function polls(run: Progress, count: number): Promise<Cell[][]> {
  const password = randomBytes(12).toString('hex')
  await using origin = await startOrigin()
  const ids = Array.from({ length: count }, (_, n) => `supplier-${n}`)
  await using service = await startService({
    admin: { listen: '127.0.0.1:0', auth: { embedded: { adminPassword: password } } },
    suppliers: ids.map((id) => supplier(id, `${origin.url}?kind=bid`)),
  })
  const base = `http://127.0.0.1:${service.admin}`
  const form = { client_id: 'public-client', grant_type: 'password', username: 'admin', password }
  const logIn = async () => {
    const response = await fetch(`${base}/auth/realms/main/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    })
    return ((await response.json()) as { access_token: string }).access_token
  }
  const bid = async (id: string) => {
    const response = await fetch(`http://127.0.0.1:${service.proxy}/bid/${id}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"id":"r","imp":[{"id":"1","banner":{"w":300,"h":250}}],"tmax":2000}',
    })
    await response.arrayBuffer()
  }
  const round = async () => {
    for (let at = 0; at < ids.length; at += 16) await Promise.all(ids.slice(at, at + 16).map(bid))
  }
  const headers = { authorization: `Bearer ${await logIn()}` }
  for (let n = 0; n < 5; n++) await round()
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
        headers: { ...headers, 'accept-encoding': 'gzip' },
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
  const sums = Float64Array.from(minuteSums, (_, at) => 17 * at + (at > 20 ? 0.37 : 0))
  const end = Date.now() - (Date.now() % hour)
  const costs: number[] = []
  for (let at = end - hours * hour; at < end; at += minute) {
    for (let n = 0; n < suppliers; n++) figures.addSums(`supplier-${n}`, at, sums)
    figures.addSums('', at, sums)
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
  const kept = [await minutes(run.quick ? 20 : 300, run.quick ? 1 : 8)]
  return [
    'A poll every 3 s, as of an open console. Before each, every supplier has bids.',
    { head: ['suppliers', 'poll', 'main thread ms', 'KB sent'], rows },
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
