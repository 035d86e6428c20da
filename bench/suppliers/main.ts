/**
 * `npm run bench:suppliers`: nodes with 3,000 suppliers, of which one changes each second: through the API, through a file of
 * `suppliersFrom`, and through `bidweir apply`, in turn and without waiting for each other. Requests that are lost, the
 * time until every node acts on a change, and memory after many changes.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Bench, bench, type Run } from '../harness/bench.ts'
import { newFolder } from '../harness/child.ts'
import { stores } from '../harness/cluster.ts'
import { rss, tree } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { logIn, type Service, startCaller, startService } from '../harness/service.ts'
import { quantile } from '../harness/statistics.ts'

const options = {
  suppliers: { value: 3000, least: 30, help: 'suppliers, a third of them in files' },
  nodes: { value: 3, least: 1, help: 'nodes' },
  seconds: { value: 60, least: 6, help: 'seconds of changes, one each' },
  rate: { value: 300, least: 1, help: 'bids a second of all nodes' },
  changes: { value: 10_000, least: 100, help: 'changes of the section `memory`' },
}
type SuppliersRun = Run<typeof options>
type Section = Bench<typeof options, World>['sections'][string]

const store = 'PostgreSQL and Redis'
const main = fileURLToPath(new URL('../../main.ts', import.meta.url))
const filesOfFolder = 10
/** Milliseconds from which a change is printed while it runs. */
const slow = 1000

interface World extends AsyncDisposable {
  nodes: readonly Service[]
  ids: { api: string[]; file: string[] }
  /** Changes a supplier; resolves when the change is acknowledged, or written. */
  change: Record<'api' | 'file' | 'apply', (id: string) => Promise<number>>
  /**
   * Milliseconds until each node sends bids of the supplier to its new endpoint; null: meanwhile `bidweir apply` has
   * changed it back, because its list was written before the change.
   */
  effect(id: string, version: number): Promise<number | null>
}

/** A supplier that answers with the version in its own address. */
async function startOrigin() {
  const server = createServer((request, response) => {
    const version = new URL(request.url!, 'http://x').searchParams.get('v') ?? ''
    request.resume().on('end', () => response.writeHead(204, { 'x-version': version }).end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function openWorld(run: SuppliersRun): Promise<World> {
  await using stack = new AsyncDisposableStack()
  const opened = stack.use(await stores[store].open())
  const origin = stack.use(await startOrigin())
  const folder = newFolder()
  stack.defer(() => folder[Symbol.dispose]())
  const all = Array.from({ length: run.options.suppliers }, (_, n) => `s${n}`)
  const ids = {
    file: all.filter((_, n) => n % 3 === 0),
    api: all.filter((_, n) => n % 3 !== 0),
  }
  const versions = new Map(all.map((id) => [id, 1]))
  const block = (id: string) => ({
    ...{ id, account: 'bench', timeout: '5s', opd: { enabled: true, holdout: 0.02 } },
    endpoints: [`${origin.url}?v=${versions.get(id)}`],
  })
  const fileOf = (id: string) => ids.file.indexOf(id) % filesOfFolder
  function writeFile(n: number): void {
    const suppliers = ids.file.filter((_, index) => index % filesOfFolder === n).map(block)
    const path = join(folder.path, `part${n}.yaml`)
    writeFileSync(`${path}.new`, JSON.stringify({ suppliers }))
    renameSync(`${path}.new`, path)
  }
  for (let n = 0; n < filesOfFolder; n++) writeFile(n)
  const password = randomBytes(12).toString('hex')
  const config = {
    admin: {
      listen: '127.0.0.1:0',
      auth: { embedded: { adminPassword: password } },
      impressions: { auth: 'context' },
    },
    store: opened.config,
    suppliersFrom: [folder.path],
    suppliers: [],
  }
  const nodes: Service[] = []
  while (nodes.length < run.options.nodes) nodes.push(stack.use(await startService(config)))
  const cli = join(folder.path, 'cli.conf')
  const secret = randomBytes(32).toString('base64url')
  writeFileSync(cli, JSON.stringify({ ...config, opd: { keys: [{ id: 1, secret }] } }))
  const { admin } = nodes[0]!
  let token = { text: await logIn(admin, password), until: performance.now() + 60_000 }
  async function call(method: string, path: string, body: unknown): Promise<void> {
    if (performance.now() > token.until)
      token = { text: await logIn(admin, password), until: performance.now() + 60_000 }
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const response = await fetch(`http://127.0.0.1:${admin}/api/svc/suppliers/${path}`, {
      ...{ method, body: JSON.stringify(body) },
      headers: { authorization: `Bearer ${token.text}`, 'content-type': type, 'if-match': '*' },
    })
    const answer = await response.text()
    if (!response.ok)
      throw new Error(`${method} ${path}: ${response.status} ${answer.slice(0, 300)}`)
  }
  let lists = 0
  /** By supplier, the newest version that a list changed back. */
  const overwritten = new Map<string, number>()
  async function apply(): Promise<void> {
    // Of its own: another one may still be read.
    const list = join(folder.path, `list${lists++}.txt`)
    writeFileSync(list, JSON.stringify({ suppliers: ids.api.map(block) }))
    const child = spawn(process.execPath, [main, 'apply', '-f', list, '--config', cli], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const closed = once(child, 'close')
    const difference = await text(child.stdout)
    const [code] = await closed
    rmSync(list)
    if (code !== 0) throw new Error(`bidweir apply ended with ${String(code)}`)
    const changes = difference.matchAll(/^~ (\w+)\n.*\?v=(\d+)"\] -> .*\?v=(\d+)"\]$/gm)
    for (const [, id, from, to] of changes)
      if (Number(to) < Number(from)) overwritten.set(id!, Number(from))
  }
  await apply()
  for (const node of nodes) while ((await suppliersOf(node)) < all.length) await wait(100)
  run.say(`  ${nodes.length} nodes, ${all.length} suppliers`)
  const next = (id: string): number => {
    const version = versions.get(id)! + 1
    versions.set(id, version)
    return version
  }
  const held = stack.move()
  return {
    ...{ nodes, ids },
    change: {
      async api(id) {
        const version = next(id)
        await call('PATCH', `${id}/`, { endpoints: block(id).endpoints })
        return version
      },
      async file(id) {
        const version = next(id)
        writeFile(fileOf(id))
        return version
      },
      async apply(id) {
        const version = next(id)
        await apply()
        return version
      },
    },
    async effect(id, version) {
      const began = performance.now()
      const times = await Promise.all(
        nodes.map(async ({ proxy }) => {
          for (;;) {
            const response = await fetch(`http://127.0.0.1:${proxy}/bid/${id}`, {
              ...{ method: 'POST', body: '{"id":"1","imp":[]}' },
            })
            if (Number(response.headers.get('x-version')) >= version)
              return performance.now() - began
            if ((overwritten.get(id) ?? 0) >= version) return null
            if (performance.now() - began > 30_000) throw new Error(`${id}: no effect after 30 s`)
            await wait(20)
          }
        }),
      )
      if (times.some((time) => time === null || time > slow))
        run.say(
          `  ${new Date().toISOString()} ${id}, version ${version}: ${times.map((ms) => ms?.toFixed() ?? 'changed back').join(' / ')} ms on the nodes`,
        )
      return times.includes(null) ? null : Math.max(...times.map(Number))
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

/** Suppliers that a node uses. */
async function suppliersOf({ metrics }: Service): Promise<number> {
  const samples = (await metrics()).matchAll(/^bidweir_suppliers\{.*\} (-?\d+)$/gm)
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** Requests of all nodes by outcome, those of `effect` included. */
async function outcomesOf(nodes: readonly Service[]): Promise<string> {
  const sums = new Map<string, number>()
  for (const { metrics } of nodes)
    for (const [, outcome, count] of (await metrics()).matchAll(
      /^bidweir_requests_total\{.*outcome="(\w+)"\} (\d+)$/gm,
    ))
      sums.set(outcome!, (sums.get(outcome!) ?? 0) + Number(count))
  return [...sums].map(([outcome, count]) => `${outcome} ${count}`).join(', ')
}

const kinds = ['api', 'file', 'apply'] as const
const names = { api: 'API', file: 'file', apply: '`bidweir apply`' }

async function effects(run: SuppliersRun, world: World): Promise<Block[]> {
  const { nodes, ids, change, effect } = world
  const seconds = run.quick ? 9 : run.options.seconds
  await using stack = new AsyncDisposableStack()
  const callers = nodes.map(() => stack.use(startCaller()))
  const paths = [...ids.api, ...ids.file].filter((_, n) => n % 29 === 0).map((id) => `/bid/${id}`)
  const rate = Math.ceil(run.options.rate / nodes.length)
  const warm = 3000
  const job = { paths, rate, connections: 8, warm, measure: (seconds + 5) * 1000 }
  const load = Promise.all(
    callers.map((caller, n) => caller.ask({ ...job, port: nodes[n]!.proxy })),
  )
  // The callers start, and each node has its first requests of each supplier.
  await wait(warm)
  const times: Record<(typeof kinds)[number], number[]> = { api: [], file: [], apply: [] }
  const changes: Promise<void>[] = []
  const failures: unknown[] = []
  let overwritten = 0
  for (let n = 0; n < seconds && failures.length === 0; n++) {
    const kind = kinds[n % kinds.length]!
    // Suppliers of `apply` and of the API are different ones, and so are two changes in a row.
    const idList = kind === 'file' ? ids.file : ids.api
    const id = idList[(kind === 'apply' ? idList.length - 1 - n : n) % idList.length]!
    changes.push(
      change[kind](id)
        .then(async (version) => {
          const time = await effect(id, version)
          if (time === null) overwritten++
          else times[kind].push(time)
        })
        .catch((error: unknown) => void failures.push(error)),
    )
    await wait(1000)
  }
  await Promise.all(changes)
  if (failures.length > 0) throw failures[0]
  const outcomes = await load
  const done = outcomes.reduce((sum, { total }) => sum + total, 0)
  const lost = outcomes.reduce((sum, { failed }) => sum + failed, 0)
  const faults = outcomes.map(({ fault }) => fault || 'no response').join('; ')
  if (lost > 0) run.refuse(`${lost} of ${done + lost} requests were lost: ${faults}`)
  const all = kinds.flatMap((kind) => times[kind])
  const rows = [...kinds.map((kind) => [names[kind], times[kind]] as const), ['all', all] as const]
  if (quantile(all, 0.99) > 2000) run.refuse('p99 of effect is above 2 s')
  return [
    `${done} requests, ${lost} lost, while ${seconds} suppliers changed. ${overwritten} changes of the API were changed back by a list of \`bidweir apply\` that was written before them, before every node was seen to use them; they have no time. The nodes counted: ${await outcomesOf(nodes)}.`,
    {
      head: ['changed through', 'changes', 'median ms', 'p99 ms', 'max ms'],
      rows: rows.map(([name, found]) => [
        ...[name, found.length, quantile(found, 0.5).toFixed(0)],
        ...[quantile(found, 0.99).toFixed(0), Math.max(...found).toFixed(0)],
      ]),
    },
  ]
}

async function memory(run: SuppliersRun, { nodes, ids, change }: World): Promise<Block[]> {
  const changes = run.quick ? 200 : run.options.changes
  const rows: string[][] = []
  const measure = (made: number) =>
    rows.push([String(made), ...nodes.map(({ pid }) => (rss(tree(pid)) / 2 ** 20).toFixed(0))])
  const steps = 5
  measure(0)
  for (let step = 1; step <= steps; step++) {
    const to = (changes * step) / steps
    for (let made = (changes * (step - 1)) / steps; made < to; made += 4)
      await Promise.all(
        [0, 1, 2, 3].map((step) => change.api(ids.api[(made + step) % ids.api.length]!)),
      )
    await wait(2000)
    measure(to)
    run.say(`  ${rows.at(-1)!.join(' ')}`)
  }
  return [
    'Resident MiB of each node after changes through the API, one after the other on four connections:',
    { head: ['changes', ...nodes.map((_, n) => `node ${n + 1}`)], rows },
  ]
}

const { absent } = stores[store]
await bench({
  folder: import.meta.dirname,
  title: 'Suppliers that change',
  about:
    'A third of the suppliers are in ten files of a folder (`suppliersFrom`), the others in the database. One changes each second, in turn through the API, a file and `bidweir apply`; no change waits for the one before. A change has an effect when every node sends the bids of the supplier to the new endpoint; the time counts from the acknowledgement of the API, the end of the command, or the rename of the file.',
  options,
  open: openWorld,
  sections: {
    effects: { title: 'Effect', absent, run: effects } satisfies Section,
    memory: { title: 'Memory', absent, run: memory } satisfies Section,
  },
})
