/** Bid traffic over real sockets, at a rate. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { mulberry32, type Random } from '../../opd/shared/random.ts'
import type { Publisher } from './market.ts'
import { type BodyKind, busy, type MadeRequest, makeRequest } from './requests.ts'

interface TrafficOptions {
  /** URL of bid requests: `http://127.0.0.1:8080/bid/demo`. */
  url: string
  /** Requests a second. */
  rate: number
  publishers: readonly Publisher[]
  signal: AbortSignal
  /** Keep-alive connections; default 16. */
  connections?: number
  kind?: BodyKind
  seed?: number
  /** Called for each response; `body` is empty for a no-bid. */
  onAnswer(request: MadeRequest, status: number, body: string): void
  /** Called for each request without a response. */
  onFailure(error: Error): void
}

/** Milliseconds between two checks of the clock. */
const beat = 20
/** Limit of requests without a response. Beyond it the proxy is too slow, and further requests would hide by how much. */
const maxOpen = 2000

/** Sends until `signal` aborts; resolves after the last response. */
export async function sendTraffic(options: TrafficOptions): Promise<void> {
  const { origin, pathname } = new URL(options.url)
  const pool = new Pool(origin, { connections: options.connections ?? 16, pipelining: 1 })
  const random: Random = mulberry32(options.seed ?? Date.now())
  const run = Date.now().toString(36)
  const open = new Set<Promise<void>>()
  let sent = 0
  const started = performance.now()
  while (!options.signal.aborted) {
    const due = Math.floor(((performance.now() - started) / 1000) * options.rate)
    for (; sent < due; sent++) {
      if (open.size >= maxOpen) continue
      const publisher = busy(options.publishers, random)
      const request = makeRequest(`${run}-${sent}`, publisher, options.kind ?? 'mix', random)
      const exchange: Promise<void> = post(pool, pathname, request, options).finally(() =>
        open.delete(exchange),
      )
      open.add(exchange)
    }
    await sleep(beat)
  }
  await Promise.all(open)
  await pool.close()
}

async function post(pool: Pool, path: string, request: MadeRequest, options: TrafficOptions) {
  try {
    const answer = await pool.request({
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-openrtb-version': '2.6' },
      body: request.body,
    })
    options.onAnswer(request, answer.statusCode, await answer.body.text())
  } catch (error) {
    options.onFailure(error as Error)
  }
}
