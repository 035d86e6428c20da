/**
 * What the process does to its own event loop and memory: bids, notices and scrapes together, the worst lateness of
 * the loop between two scrapes; and the memory that one more request in flight takes.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runDemo } from '../demo/main.ts'
import { createDemoSupplier } from '../demo/supplier.ts'

const main = fileURLToPath(new URL('../../main.ts', import.meta.url))
const seconds = 20
const stalled = 2000

interface Service {
  child: ChildProcess
  proxy: number
  admin: number
}

async function serve(endpoint: string): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-loop-'))
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(
    file,
    `proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", impressions: {auth: context}}
suppliers: [{id: demo, endpoints: [${endpoint}], timeout: 30s, opd: {enabled: true, holdout: 0.1}}]
`,
  )
  const child = spawn(process.execPath, [main, 'start', '--config', file], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  while (!/^admin .*\n/m.test(text)) text += String((await once(child.stdout!, 'data'))[0])
  const port = (name: string) => Number(new RegExp(`^${name} .*?:(\\d+)/`, 'm').exec(text)![1])
  return { child, proxy: port('bid traffic'), admin: port('admin') }
}

async function loopUnderLoad(): Promise<{ worst: number; scrapes: number }> {
  const supplier = await createDemoSupplier()
  const { child, proxy, admin } = await serve(supplier.url)
  const over = new AbortController()
  const demo = runDemo({
    proxyUrl: `http://127.0.0.1:${proxy}`,
    adminUrl: `http://127.0.0.1:${admin}`,
    supplier,
    signal: over.signal,
    rate: 500,
    out: { write: () => true },
  })
  let worst = 0
  let scrapes = 0
  // The first seconds compile; they are not what is measured.
  for (let second = 0; second < seconds; second++) {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text()
    const lag = Number(/^bidweir_event_loop_lag_seconds (\S+)/m.exec(text)?.[1])
    scrapes++
    if (second >= 5) worst = Math.max(worst, lag)
  }
  over.abort()
  await demo
  child.kill('SIGINT')
  await once(child, 'exit')
  await supplier.close()
  return { worst, scrapes }
}

const residentBytes = (pid: number) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024

/** Requests whose supplier never answers: what each of them holds. */
async function memoryPerRequest(): Promise<number> {
  const held: Socket[] = []
  const silent = createServer((socket) => held.push(socket.on('error', () => {})))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as AddressInfo
  const { child, proxy } = await serve(`http://127.0.0.1:${port}/`)
  const body = JSON.stringify({ id: 'r', imp: [{ id: '1' }], pad: 'x'.repeat(2600) })
  const request = `POST /bid/demo HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const before = residentBytes(child.pid!)
  const callers = Array.from({ length: stalled }, () => {
    const socket = connect(proxy, '127.0.0.1')
    socket.write(request)
    return socket
  })
  while (held.length < stalled) await new Promise((resolve) => setTimeout(resolve, 50))
  const after = residentBytes(child.pid!)
  for (const socket of [...callers, ...held]) socket.destroy()
  child.kill('SIGKILL')
  await once(child, 'exit')
  silent.close()
  return (after - before) / stalled
}

const { worst, scrapes } = await loopUnderLoad()
const bytes = await memoryPerRequest()
const report = `# Event loop and memory

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}.

| what | measured |
|---|---|
| worst lateness of the event loop between ${scrapes} scrapes, a second apart, 500 bid requests/s with notices (first 5 s left out) | ${(worst * 1000).toFixed(1)} ms |
| resident memory of one request in flight with a 2.7 KB body, its two connections included (${stalled} stalled requests) | ${(bytes / 1024).toFixed(1)} KB |
`
process.stdout.write(report)
writeFileSync(new URL('RESULTS.md', import.meta.url), report)
