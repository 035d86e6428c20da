/**
 * How late the deadline's no-bid comes while the proxy is busy: a supplier that never answers beside one that does, at
 * 70 % of the rate that the proxy reached in a closed loop on this machine.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Outcome } from '../proxy/source.ts'
import type { Service } from './service.ts'

/** Milliseconds. */
export const timeout = 120
const share = 0.7
/** Requests a second to the supplier that never answers. */
const silentRate = 100

export interface Lateness {
  /** Requests a second beside. */
  rate: number
  /** Milliseconds past the deadline, at the caller's socket. */
  p50: number
  p99: number
  count: number
}

/** A supplier that reads and never answers. */
export async function silentSupplier() {
  const held = new Set<Socket>()
  const server = createServer((socket) => {
    held.add(socket.on('error', () => {}))
    socket.resume().on('close', () => held.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    held,
    close() {
      for (const socket of held) socket.destroy()
      server.close()
    },
  }
}

const child = (file: string) =>
  fork(new URL(`../proxy/${file}`, import.meta.url), { stdio: 'inherit' })

export async function startOrigin(): Promise<{ process: ChildProcess; url: string }> {
  const origin = child('origin.ts')
  const [{ port }] = (await once(origin, 'message')) as [{ port: number }]
  return { process: origin, url: `http://127.0.0.1:${port}/openrtb` }
}

/** One run of the load source. */
async function load(source: ChildProcess, port: number, rate: number, ms: number) {
  source.send({ port, paths: ['/bid/busy'], connections: 64, rate, warm: 500, measure: ms })
  for (;;) {
    const [message] = (await once(source, 'message')) as [{ phase: string; outcome: Outcome }]
    if (message.phase === 'done') return message.outcome
  }
}

/** One request to the silent supplier on a connection of its own; how late its no-bid came, milliseconds. */
function lateness(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    let sent = 0
    socket.on('error', reject)
    socket.on('connect', () => {
      sent = performance.now()
      socket.write('POST /bid/silent HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}')
    })
    socket.once('data', () => {
      resolve(performance.now() - sent - timeout)
      socket.destroy()
    })
  })
}

export async function deadlines({ proxy }: Service, seconds: number): Promise<Lateness> {
  const source = child('source.ts')
  const { answers, seconds: took } = await load(source, proxy, 0, 3000)
  const rate = Math.round((answers / took) * share)
  const busy = load(source, proxy, rate, seconds * 1000)
  const late: Promise<number>[] = []
  const timer = setInterval(() => late.push(lateness(proxy)), 1000 / silentRate)
  await busy
  clearInterval(timer)
  const sorted = (await Promise.all(late)).sort((one, other) => one - other)
  source.kill()
  const at = (quantile: number) => sorted[Math.floor(quantile * (sorted.length - 1))]!
  return { rate, p50: at(0.5), p99: at(0.99), count: sorted.length }
}
