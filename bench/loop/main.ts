/**
 * What the process does to its own event loop and memory: bids, notices and scrapes together, the worst lateness of
 * the loop between two scrapes; the memory that one more request in flight takes; reloads and scrapes of 3,000 suppliers.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { cpus } from 'node:os'
import { runDemo } from '../../service/demo/main.ts'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { deadlines, type Lateness, silentSupplier, startOrigin, timeout } from './deadlines.ts'
import { type Held, manySuppliers } from './many.ts'
import { serve } from './service.ts'

const seconds = 20
const stalled = 2000

async function loopUnderLoad(): Promise<{ worst: number; scrapes: number }> {
  const supplier = await createDemoSupplier()
  const { child, proxy, admin } = await serve({ demo: { endpoint: supplier.url, timeout: '30s' } })
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
  const { url, held, close } = await silentSupplier()
  const { child, proxy } = await serve({ demo: { endpoint: url, timeout: '30s' } })
  const body = JSON.stringify({ id: 'r', imp: [{ id: '1' }], pad: 'x'.repeat(2600) })
  const request = `POST /bid/demo HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const before = residentBytes(child.pid!)
  const callers = Array.from({ length: stalled }, () => {
    const socket = connect(proxy, '127.0.0.1')
    socket.write(request)
    return socket
  })
  while (held.size < stalled) await new Promise((resolve) => setTimeout(resolve, 50))
  const after = residentBytes(child.pid!)
  for (const socket of callers) socket.destroy()
  child.kill('SIGKILL')
  await once(child, 'exit')
  close()
  return (after - before) / stalled
}

async function deadlinesUnderLoad(): Promise<Lateness> {
  const silent = await silentSupplier()
  const origin = await startOrigin()
  const service = await serve({
    busy: { endpoint: origin.url, timeout: '5s' },
    silent: { endpoint: silent.url, timeout: `${timeout}ms` },
  })
  const late = await deadlines(service, seconds)
  service.child.kill('SIGINT')
  await once(service.child, 'exit')
  origin.process.kill()
  silent.close()
  return late
}

const late = await deadlinesUnderLoad()
const { worst, scrapes } = await loopUnderLoad()
const bytes = await memoryPerRequest()
const many = await manySuppliers()
const ms = ({ least, median }: Held) => `${least.toFixed(1)} ms, ${median.toFixed(1)} ms`
const report = `# Event loop and memory

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}.

| what | measured |
|---|---|
| worst lateness of the event loop between ${scrapes} scrapes, a second apart, 500 bid requests/s with notices (first 5 s left out) | ${(worst * 1000).toFixed(1)} ms |
| resident memory of one request in flight with a 2.7 KB body, its two connections included (${stalled} stalled requests) | ${(bytes / 1024).toFixed(1)} KB |
| no-bids of a supplier that never answers, past their deadline of ${timeout} ms, at the caller's socket, beside ${late.rate} requests/s (70 % of what the machine reached): median, p99 of ${late.count} | ${late.p50.toFixed(1)} ms, ${late.p99.toFixed(1)} ms |
| longest turn of the event loop in a reload of 3,000 suppliers that changes each of them: least, median of the rounds | ${ms(many.changed)} |
| the same where none has changed | ${ms(many.unchanged)} |
| the same in a scrape of them, ${(many.bytes / 1e6).toFixed(2)} MB | ${ms(many.scrape)} |
`
process.stdout.write(report)
writeFileSync(new URL('RESULTS.md', import.meta.url), report)
