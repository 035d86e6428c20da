/**
 * `npm run bench:house`: how many files and functions of the project one priced bid and one win notice run, by precise
 * coverage of V8 in one warm process without other traffic. What runs without them is left out. Counts alone: a busy machine
 * changes none of them.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loadConfig } from '../../service/config/load.ts'
import { startService } from '../../service/service.ts'
import { bench } from '../harness/bench.ts'
import { newFolder } from '../harness/child.ts'
import type { Block, Table } from '../harness/report.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Layers whose files are counted. */
const layers = /^(opd|proxy|admin|service)\//
/** Milliseconds that a notice takes to have all its effects: its journal is settled every quarter of a second. */
const settled = 400

/** Names of the functions that ran, by file. */
type Ran = Map<string, Set<string>>

/** Precise coverage of this process: `take` returns what ran since the last call. */
async function coverage() {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  return {
    async take(): Promise<Ran> {
      const { result } = await session.post('Profiler.takePreciseCoverage')
      const ran: Ran = new Map()
      for (const { url, functions } of result) {
        const file = url.startsWith('file://') ? relative(root, fileURLToPath(url)) : ''
        if (!layers.test(file)) continue
        // the first function of a file is the module itself
        const names = functions
          .filter(({ ranges: [range] }) => range!.count > 0 && range!.startOffset > 0)
          .map(({ functionName, ranges: [range] }) => `${functionName} ${range!.startOffset}`)
        if (names.length > 0) ran.set(file, new Set(names))
      }
      return ran
    },
    close: () => session.disconnect(),
  }
}

/** A supplier that bids 2.50 for each request, with the macro of the context. */
async function startSupplier() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const id = String(request.headers['x-bid'])
      const nurl = 'https://t.example/win?svc_opd=$' + '{SVC_OPD_CONTEXT}'
      const bid = { id, impid: '1', price: 2.5, nurl }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ id, cur: 'USD', seatbid: [{ seat: 's', bid: [bid] }] }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function startNode(endpoint: string) {
  const folder = newFolder()
  const file = join(folder.path, 'bidweir.yaml')
  writeFileSync(
    file,
    `proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", impressions: {auth: context}}
drain: {grace: 0s, timeout: 5s}
suppliers:
  - {id: acme, endpoints: ["${endpoint}"], timeout: 5s, opd: {enabled: true, holdout: 0.01}}
`,
  )
  const { config, ...loaded } = loadConfig(file)
  if (config === null) throw new Error(JSON.stringify(loaded.faults))
  const silent = { level: 'info' as const, info() {}, warn() {}, error() {} }
  const load = async () => ({ config, ...loaded })
  const loadedOnce = { config, ...loaded }
  const service = await startService({ loaded: loadedOnce, load, log: silent, watch: null })
  return { service, folder }
}

const rounds = 3

/** Seconds of the idle time: longer than the periods of the timers that resolve names and mark figures, 15 and 30 s. */
const idleSeconds = 32

/** What runs without any event. */
async function idleRun(take: () => Promise<Ran>): Promise<Ran> {
  const idle: Ran = new Map()
  for (let n = 0; n < idleSeconds; n++) {
    await take()
    await wait(1000)
    for (const [file, names] of await take())
      idle.set(file, new Set([...(idle.get(file) ?? []), ...names]))
  }
  return idle
}

/** The files of which something runs for the event and not without it, with the number of their functions. */
function filesOf(ran: Ran, idle: Ran): Map<string, number> {
  const files = new Map<string, number>()
  for (const [file, names] of ran) {
    const other = idle.get(file)
    const ownNames = [...names].filter((name) => other?.has(name) !== true)
    if (ownNames.length > 0) files.set(file, ownNames.length)
  }
  return files
}

const linesOf = (file: string) => readFileSync(join(root, file), 'utf8').split('\n').length - 1
const sum = (counts: Iterable<number>) => [...counts].reduce((all, count) => all + count, 0)

function report(events: Readonly<Record<string, Map<string, number>>>): Block[] {
  const rows = Object.entries(events).map(([name, files]) => [
    ...[name, files.size, sum(files.values()), sum([...files.keys()].map(linesOf))],
  ])
  const totals: Table = { head: ['event', 'files', 'functions', 'lines of these files'], rows }
  const lists = Object.entries(events).flatMap(([name, files]): Block[] => {
    const byFolder = new Map<string, string[]>()
    for (const file of [...files.keys()].sort()) {
      const folder = file.slice(0, file.lastIndexOf('/'))
      byFolder.set(folder, [...(byFolder.get(folder) ?? []), file.slice(folder.length + 1)])
    }
    const found = [...byFolder].map(([folder, names]) => [folder, names.length, names.join(' ')])
    return [`Files of a ${name}:`, { head: ['folder', 'files', 'names'], rows: found }]
  })
  return [totals, ...lists]
}

async function events(): Promise<Block[]> {
  const covered = await coverage()
  const supplier = await startSupplier()
  const { service, folder } = await startNode(supplier.url)
  const [proxy, admin] = [service.proxyPort, service.adminPort].map(
    (port) => `http://127.0.0.1:${port}`,
  )
  let count = 0
  async function bid() {
    const id = `b${++count}`
    const imp = [{ id: '1', bidfloor: 0.5, banner: { w: 300, h: 250 } }]
    const site = { domain: 'n.example', publisher: { id: 'p' } }
    const response = await fetch(`${proxy}/bid/acme`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-bid': id },
      body: JSON.stringify({ id, imp, site, tmax: 300 }),
    })
    const context = /svc_opd=([\w-]+)/.exec(await response.text())?.[1]
    if (context === undefined) throw new Error(`bid ${id} was not priced: ${response.status}`)
    return { id, context }
  }
  async function notify({ id, context }: Awaited<ReturnType<typeof bid>>) {
    const answer = await fetch(`${admin}/opd/imp?bid_id=${id}&price=1.5&svc_opd=${context}`)
    if (answer.status !== 200) throw new Error(`the win of ${id}: ${answer.status}`)
  }
  /** What runs in at least two of the rounds: a timer that is due in one of them is not part of the event. */
  async function files(event: () => Promise<unknown>, idle: Ran) {
    const once: Ran = new Map()
    const ran: Ran = new Map()
    for (let n = 0; n < rounds; n++) {
      await covered.take()
      await event()
      await wait(settled)
      for (const [file, names] of await covered.take()) {
        const before = once.get(file) ?? new Set()
        ran.set(file, (ran.get(file) ?? new Set()).union(before.intersection(names)))
        once.set(file, before.union(names))
      }
    }
    return filesOf(ran, idle)
  }
  try {
    // so that nothing is done for the first time
    for (let n = 0; n < 20; n++) await notify(await bid())
    const won = [await bid(), await bid(), await bid()]
    const idle = await idleRun(covered.take)
    return report({
      'priced bid': await files(bid, idle),
      'win notice': await files(() => notify(won.pop()!), idle),
    })
  } finally {
    await service.stop(0, 5000)
    supplier.close()
    covered.close()
    folder[Symbol.dispose]()
  }
}

await bench({
  folder: import.meta.dirname,
  title: 'Files of an event',
  about:
    'One bid that is priced on the fast lane, and one win notice with a context, on SQLite without Redis. Files of `opd`, `proxy`, `admin` and `service` of which at least one function runs for the event and not without it.',
  sections: { events: { title: 'Events', run: events } },
})
