/**
 * The platform of the demo: it sends bid requests at a rate, and win notices with a delay, some of them twice, some never.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { mulberry32, type Random } from '../../opd/base/random.ts'
import type { Publisher } from './market.ts'
import { busy, type MadeRequest, makeRequest } from './requests.ts'

interface TrafficOptions {
  /** URL of bid requests: `http://127.0.0.1:8080/bid/demo`. */
  url: string
  /** Requests a second. */
  rate: number
  publishers: readonly Publisher[]
  signal: AbortSignal
  /** Called for each response; `body` is empty for a no-bid. */
  onResponse(request: MadeRequest, status: number, body: string): void
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
  const pool = new Pool(origin, { connections: 16, pipelining: 1 })
  const random: Random = mulberry32(Date.now())
  // suppliers of the same run have bids of their own
  const run = `${pathname.split('/').at(-1)}-${Date.now().toString(36)}`
  const open = new Set<Promise<void>>()
  let sent = 0
  const started = performance.now()
  while (!options.signal.aborted) {
    const due = Math.floor(((performance.now() - started) / 1000) * options.rate)
    for (; sent < due; sent++) {
      if (open.size >= maxOpen) continue
      const publisher = busy(options.publishers, random)
      const request = makeRequest(`${run}-${sent}`, publisher, 'mix', random)
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
    const response = await pool.request({
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-openrtb-version': '2.6' },
      body: request.body,
    })
    options.onResponse(request, response.statusCode, await response.body.text())
  } catch (error) {
    options.onFailure(error as Error)
  }
}

interface NoticeOptions {
  /** The admin listener: `http://127.0.0.1:8081`. */
  adminUrl: string
  /** `ssp` of each notice. */
  supplier: string
  /** Mean delay in milliseconds (exponential). */
  delay: number
  /** Shares; defaults 0.03 and 0.01. */
  loss?: number
  duplicates?: number
  /** The notice that is sent in place of a whole one; null: none. `chance`: from 0 to 1, another one for each notice. */
  change?: (query: URLSearchParams, chance: number) => URLSearchParams | null
}

/** The notice to the platform, from the URL that the supplier calls. */
export function impressionQuery(nurl: string, cleared: number, supplier: string) {
  const expanded = new URL(nurl.replaceAll('${AUCTION_PRICE}', String(cleared))).searchParams
  const query = new URLSearchParams({ ssp: supplier })
  for (const name of ['bid_id', 'price', 'svc_opd']) {
    const value = expanded.get(name)
    if (value !== null) query.set(name, value)
  }
  return query
}

/** Notices that wait at a time; more count as lost. */
const maxWaiting = 100_000

export function createNotices(options: NoticeOptions) {
  const { supplier, delay, loss = 0.03, duplicates = 0.01, change = (query) => query } = options
  const pool = new Pool(options.adminUrl, { connections: 8, pipelining: 1 })
  const random = mulberry32(7)
  const waiting = new Set<NodeJS.Timeout>()
  const send = async (query: string) => {
    // What becomes of it is seen in the figures of the service.
    const response = await pool.request({ path: `/opd/imp?${query}`, method: 'GET' })
    await response.body.dump()
  }
  const later = (query: string, mean: number) => {
    const timer = setTimeout(
      () => {
        waiting.delete(timer)
        // One that fails is missing in the figures, as a notice of a platform is that fails.
        void send(query).catch(() => undefined)
      },
      -Math.log(1 - random()) * mean,
    )
    waiting.add(timer)
  }
  return {
    /** `nurl`: that of the bid, with its macros expanded; `cleared` replaces ${AUCTION_PRICE}, CPM in the bid's currency. */
    reportWin(nurl: string, cleared: number): void {
      if (random() < loss || waiting.size >= maxWaiting) return
      const query = change(impressionQuery(nurl, cleared, supplier), random())?.toString()
      if (query === undefined) return
      later(query, delay)
      if (random() < duplicates) later(query, delay * 2)
    },
    /** Drops the notices that have not been sent, and waits for responses to the others. */
    async close() {
      for (const timer of waiting) clearTimeout(timer)
      waiting.clear()
      await pool.close()
    },
  }
}
