/**
 * `npm run bench:loop`: what the process does to its own event loop, memory and CPU time: deadlines beside load, scrapes,
 * a request in flight, reloads of 3,000 suppliers, encoded bodies; about three minutes.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { runDemo } from '../../service/demo/main.ts'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { bench, type Run } from '../harness/bench.ts'
import { drive } from '../harness/client.ts'
import { rss } from '../harness/process.ts'
import { type Block, measured } from '../harness/report.ts'
import {
  type Caller,
  type Service,
  startCaller,
  startOrigin,
  startService,
  supplier,
} from '../harness/service.ts'
import { median } from '../harness/statistics.ts'
import { bidRequests, requestHead } from '../harness/traffic.ts'
import { encodedBodies } from './bodies.ts'
import type { Longest } from './probe.ts'

const ms = (value: number) => `${value.toFixed(1)} ms`
const figure = (what: string, value: string): Block[] => [measured([[what, value]])]

/** A supplier that reads and never answers. */
async function silentSupplier() {
  const held = new Set<Socket>()
  const server = createServer((socket) => {
    held.add(socket.on('error', () => {}))
    socket.resume().on('close', () => held.delete(socket))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    held,
    [Symbol.dispose]() {
      for (const socket of held) socket.destroy()
      server.close()
    },
  }
}

/** 70 % of the requests a second that the machine reaches in so many milliseconds. */
async function seventyPercent(caller: Caller, job: Parameters<Caller['ask']>[0]): Promise<number> {
  const { count, seconds } = await caller.ask(job)
  return Math.round((count / seconds) * 0.7)
}

/** How late after its deadline a no-bid comes, beside the load of another supplier. */
async function deadlines({ quick }: Run): Promise<Block[]> {
  const timeout = 120
  using silent = await silentSupplier()
  await using origin = await startOrigin()
  const late = supplier('silent', silent.url, {
    ...{ timeout: `${timeout}ms`, maxInFlight: 8192 },
  })
  const suppliers = [supplier('busy', origin.url), late]
  await using service = await startService({ suppliers })
  await using caller = startCaller()
  const job = { port: service.proxy, paths: ['/bid/busy'], connections: 64, warm: 500 }
  const rate = await seventyPercent(caller, { ...job, rate: 0, measure: quick ? 1000 : 3000 })
  const measure = quick ? 2000 : 20_000
  const request = Buffer.from(`${requestHead('/bid/silent', 2)}{}`)
  const [{ kinds }] = await Promise.all([
    drive({
      ...{ port: service.proxy, connections: 0, rate: 100, warm: 500, measure },
      next: () => request,
      kind: ({ head }) => /x-bidweir-reason: (\w+)/i.exec(head)?.[1] ?? 'failed',
    }),
    caller.ask({ ...job, rate, measure }),
  ])
  const { count, p50, p99 } = kinds['timeout']!
  return figure(
    `no-bids of a supplier that never answers, past their deadline of ${timeout} ms, at the caller's socket, beside ${rate} requests/s (70 % of what the machine reached): median, p99 of ${count}`,
    `${ms(p50 - timeout)}, ${ms(p99 - timeout)}`,
  )
}

/** How late the event loop is at 70 % of the load that the machine reaches: the mix of no-bids, bids and VAST. */
async function underLoad({ quick }: Run): Promise<Block[]> {
  await using origin = await startOrigin()
  await using service = await startService(
    { suppliers: [supplier('mix', origin.url)] },
    { probe: new URL('probe.ts?timer', import.meta.url) },
  )
  await using caller = startCaller()
  const job = { port: service.proxy, paths: ['/bid/mix'], connections: 64, warm: 500 }
  const rate = await seventyPercent(caller, { ...job, rate: 0, measure: quick ? 1000 : 10_000 })
  await service.probe()
  await caller.ask({ ...job, rate, measure: quick ? 2000 : 10_000 })
  const p99 = await service.probe()
  return figure(
    `lateness of the event loop beside ${rate} requests/s (70 % of what the machine reached), p99 of a timer of 5 ms`,
    ms(p99),
  )
}

/** Bids, notices and scrapes together. */
async function lag({ quick }: Run): Promise<Block[]> {
  const [seconds, skipped] = quick ? [4, 2] : [20, 5]
  const demoSupplier = await createDemoSupplier()
  await using service = await startService({ suppliers: [supplier('demo', demoSupplier.url)] })
  const over = new AbortController()
  const demo = runDemo({
    proxyUrl: `http://127.0.0.1:${service.proxy}`,
    adminUrl: `http://127.0.0.1:${service.admin}`,
    ...{ supplier: demoSupplier, signal: over.signal, rate: 500, out: { write: () => true } },
    figures: async () => null,
  })
  let worst = 0
  for (let second = 0; second < seconds; second++) {
    await wait(1000)
    const text = await service.metrics()
    const lag = Number(/^bidweir_event_loop_lag_seconds (\S+)/m.exec(text)?.[1])
    // Code is compiled in the first seconds: they are not measured.
    if (second >= skipped) worst = Math.max(worst, lag)
  }
  over.abort()
  await demo
  await demoSupplier.close()
  return figure(
    `worst lateness of the event loop between ${seconds} scrapes, a second apart, 500 bid requests/s with notices (first ${skipped} s left out)`,
    ms(worst * 1000),
  )
}

/** The memory of a request whose supplier never answers. */
async function memory({ quick }: Run): Promise<Block[]> {
  const stalled = quick ? 200 : 2000
  using silent = await silentSupplier()
  const demo = supplier('demo', silent.url, { timeout: '30s', maxInFlight: 8192 })
  await using service = await startService({ suppliers: [demo] })
  const { proxy, pid } = service
  const body = Buffer.from(String(bidRequests[0]).replace('"tmax":5000', '"tmax":60000'))
  const request = Buffer.concat([requestHead('/bid/demo', body.length), body])
  const before = rss([pid])
  const callers = Array.from({ length: stalled }, () => {
    const socket = connect(proxy, '127.0.0.1').on('error', () => {})
    socket.write(request)
    return socket
  })
  for (let tries = 0; silent.held.size < stalled; tries++) {
    if (tries > 400) throw new Error(`only ${silent.held.size} requests reached the supplier`)
    await wait(50)
  }
  const bytes = (rss([pid]) - before) / stalled
  for (const socket of callers) socket.destroy()
  return figure(
    `resident memory of one request in flight with a body of ${body.length} bytes, its two connections included (${stalled} stalled requests)`,
    `${(bytes / 1024).toFixed(1)} KB`,
  )
}

async function reload(service: Service, config: Record<string, unknown>): Promise<void> {
  const taken = async () =>
    /^bidweir_config_reloads_total\{result="taken"\} (\d+)/m.exec(await service.metrics())?.[1] ??
    '0'
  const before = await taken()
  await service.probe()
  service.reload(config)
  // A second each: each of these checks is a scrape, which is work of its own.
  do await wait(1000)
  while ((await taken()) === before)
}

/** A reload that changes all of 3,000 suppliers, one that changes none, a scrape. */
async function manySuppliers({ quick }: Run): Promise<Block[]> {
  const count = quick ? 300 : 3000
  const config = (holdout: number) => ({
    suppliers: Array.from({ length: count }, (_each, n) =>
      supplier(`supplier-${n}`, `http://127.0.0.1:9/${n}`, { opd: { enabled: true, holdout } }),
    ),
  })
  const probe = new URL('probe.ts?turns', import.meta.url)
  await using service = await startService(config(0.1), { probe })
  /** Least and median of the rounds, and what the longest turn of the median round consisted of. */
  async function longest(work: (round: number) => Promise<unknown>): Promise<string[]> {
    const turns: Longest[] = []
    for (let round = 0; round < (quick ? 2 : 6); round++) {
      await service.probe()
      await work(round)
      turns.push(await service.probe<Longest>())
    }
    const rangeOf = (figures: number[]) => `${ms(Math.min(...figures))}, ${ms(median(figures))}`
    turns.sort((one, other) => one.hold - other.hold)
    const { hold, ran, waited } = turns[Math.floor((turns.length - 1) / 2)]!
    return [
      rangeOf(turns.map(({ ownHold }) => ownHold)),
      rangeOf(turns.map((turn) => turn.hold)),
      `${ms(ran)} + ${ms(waited)} + ${ms(Math.max(0, hold - ran - waited))}`,
    ]
  }
  const bytes = (await service.metrics()).length
  const scrape = await longest(() => service.metrics())
  const unchanged = await longest(() => reload(service, config(0.1)))
  const changed = await longest((round) => reload(service, config(0.2 + round / 100)))
  return [
    {
      head: [
        'longest turn of the event loop: least, median of the rounds',
        'time that the main thread itself ran',
        'the whole turn',
        'a median turn: ran + waited for a processor + blocked',
      ],
      rows: [
        [`reload of ${count} suppliers that changes each of them`, ...changed],
        ['reload that changes none', ...unchanged],
        [`scrape of them, ${(bytes / 1e6).toFixed(2)} MB`, ...scrape],
      ],
    },
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'Event loop and memory',
  about: 'Each figure comes from a bidweir process of its own with OPD on.',
  sections: {
    deadlines: { title: 'Deadlines beside load', run: deadlines },
    load: { title: 'The event loop under load', run: underLoad },
    lag: { title: 'Bids, notices and scrapes', run: lag },
    memory: { title: 'A request in flight', run: memory },
    suppliers: { title: '3,000 suppliers', run: manySuppliers },
    bodies: { title: 'Encoded bodies', run: encodedBodies },
  },
})
