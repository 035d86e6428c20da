/**
 * Goodput past a supplier's capacity (CONTRACT 3, overload): bidweir with its defaults, with `maxInFlight: N`, and
 * HAProxy with `maxconn` and a queue where it is installed. `main.ts SECONDS` of each load; `--write`: RESULTS.md.
 */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from '../loop/service.ts'
import { Load } from './load.ts'

interface Case {
  name: string
  slots: number
  /** Milliseconds, and the width of its lognormal distribution; 0: always the same. */
  service: number
  sigma: number
  deadline: number
  cancels: boolean
}

const cases: Case[] = [
  { name: '40/s', slots: 4, service: 100, sigma: 0, deadline: 500, cancels: true },
  { name: '40/s, ignores aborts', slots: 4, service: 100, sigma: 0, deadline: 500, cancels: false },
  { name: '200/s', slots: 10, service: 50, sigma: 0, deadline: 300, cancels: true },
  {
    name: '200/s, ignores aborts',
    slots: 10,
    service: 50,
    sigma: 0,
    deadline: 300,
    cancels: false,
  },
  { name: '200/s, lognormal', slots: 10, service: 50, sigma: 0.5, deadline: 300, cancels: true },
  { name: '500/s', slots: 10, service: 20, sigma: 0, deadline: 120, cancels: true },
]
const loads = [0.5, 2, 5, 10, 0.5]
const seconds = Number(process.argv.find((each) => /^\d+$/.test(each)) ?? 5)

async function startSupplier({ slots, service, sigma, cancels }: Case) {
  const args = [slots, service, sigma].map(String)
  const process = fork(new URL('supplier.ts', import.meta.url), [
    ...args,
    cancels ? 'cancels' : 'ignores',
  ])
  const [port] = (await once(process, 'message')) as [number]
  return { process, port }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

async function startHaproxy({ slots, deadline }: Case, supplier: number) {
  const port = await freePort()
  const file = join(mkdtempSync(join(tmpdir(), 'bidweir-overload-')), 'haproxy.cfg')
  writeFileSync(
    file,
    `defaults
  mode http
  timeout client 10s
  timeout connect 1s
  timeout server ${deadline}ms
  timeout queue ${Math.round(deadline / 4)}ms
listen bids
  bind 127.0.0.1:${port}
  option abortonclose
  server supplier 127.0.0.1:${supplier} maxconn ${slots} maxqueue ${2 * slots}
`,
  )
  const child = spawn('haproxy', ['-db', '-f', file], { stdio: 'ignore' })
  await new Promise((resolve) => setTimeout(resolve, 500))
  return { child, port }
}

const quantile = (values: number[], at: number) => {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted.length === 0 ? '–' : sorted[Math.floor(at * (sorted.length - 1))]!.toFixed(0)
}

async function measure(of: Case, subject: string, port: number): Promise<string[]> {
  const load = new Load(port, '/bid/acme', of.deadline)
  const capacity = (of.slots * 1000) / of.service
  const rows: string[] = []
  for (const times of loads) {
    const tally = await load.run(capacity * times, seconds)
    const possible = Math.min(tally.arrived, capacity * seconds)
    const { good, late, failed, refused, goodTimes, refusedTimes } = tally
    rows.push(
      `| ${[
        ...[of.name, subject, `${times}x`, `${((100 * good) / possible).toFixed(1)} %`],
        ...[quantile(goodTimes, 0.5), quantile(goodTimes, 0.99)],
        ...[refused, quantile(refusedTimes, 0.5), quantile(refusedTimes, 0.99), late + failed],
      ].join(' | ')} |`,
    )
    process.stdout.write(`${rows.at(-1)}\n`)
  }
  load.close()
  return rows
}

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

async function ofBidweir(of: Case, maxInFlight: 'auto' | number): Promise<string[]> {
  const supplier = await startSupplier(of)
  const endpoint = `http://127.0.0.1:${supplier.port}/`
  const route = { endpoint, timeout: `${of.deadline}ms`, maxInFlight }
  const { child, proxy } = await serve({ acme: route })
  const rows = await measure(of, `bidweir, maxInFlight ${maxInFlight}`, proxy)
  await end(child)
  await end(supplier.process)
  return rows
}

async function ofHaproxy(of: Case): Promise<string[]> {
  const supplier = await startSupplier(of)
  const { child, port } = await startHaproxy(of, supplier.port)
  const rows = await measure(of, `HAProxy, maxconn ${of.slots}`, port)
  await end(child)
  await end(supplier.process)
  return rows
}

function haproxyVersion(): string | null {
  try {
    return /version (\S+)/.exec(String(execFileSync('haproxy', ['-v'])))?.[1] ?? null
  } catch {
    return null
  }
}

const version = haproxyVersion()
const rows: string[] = []
const only = process.env['CASE']
for (const each of cases) {
  if (only !== undefined && only !== each.name) continue
  rows.push(...(await ofBidweir(each, 'auto')), ...(await ofBidweir(each, each.slots)))
  if (version !== null) rows.push(...(await ofHaproxy(each)))
}
const report = `# Overload

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, HAProxy ${version ?? 'not installed'}. ${seconds} s of each load, one after another, from a cold start. Goodput is the share of what the supplier could have answered that was answered within the deadline; times in milliseconds, as the caller sees them.

| capacity | proxy | load | goodput | good p50 | good p99 | refused | refused p50 | refused p99 | late |
|---|---|---|---|---|---|---|---|---|---|
${rows.join('\n')}
`
if (process.argv.includes('--write')) writeFileSync(new URL('RESULTS.md', import.meta.url), report)
