/** The memory of idle connections of callers. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Run } from '../harness/bench.ts'
import { rss } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { bidRequests, requestHead, stamper } from '../harness/traffic.ts'
import type { Running } from './peers.ts'

/** Connections that are opened, or asked, at the same time. */
const together = 64
/** Milliseconds after which a process has done what follows the last request. */
const settled = 1000

async function inParallel<T, R>(all: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let index = 0; index < all.length; index += together)
    results.push(...(await Promise.all(all.slice(index, index + together).map(work))))
  return results
}

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

const body = bidRequests[0]!
const noBid = stamper(Buffer.concat([requestHead('/bid/bench?kind=no-bid', body.length), body]))

/** A no-bid is one read. */
async function ask(socket: Socket): Promise<void> {
  socket.write(noBid())
  await once(socket, 'data')
}

/** Resident bytes for each of `count` connections: never used, and after one no-bid on each. */
async function bytesEach({ port, pids }: Running, count: number) {
  const size = async () => {
    await wait(settled)
    return rss(pids())
  }
  const before = await size()
  const sockets = await inParallel(Array<number>(count).fill(port), open)
  try {
    const unused = ((await size()) - before) / count
    await inParallel(sockets, ask)
    return { unused, used: ((await size()) - before) / count }
  } finally {
    for (const socket of sockets) socket.destroy()
  }
}

export async function idleConnections(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  proxies: readonly Running[],
): Promise<Block[]> {
  const count = quick ? 500 : 10_000
  const rows: [string, string, string][] = []
  for (const proxy of proxies) {
    const { unused, used } = await bytesEach(proxy, count)
    rows.push([proxy.name, unused.toFixed(0), used.toFixed(0)])
    say(`  ${rows.at(-1)!.join(' ')}`)
  }
  return [
    `${count} connections. What the resident memory of the process grew by, divided by them; the kernel's memory for sockets is not part of it.`,
    { head: ['bytes each', 'never used', 'after one no-bid'], rows },
  ]
}
