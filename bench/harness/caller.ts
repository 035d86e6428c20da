/**
 * The caller of the benchmarks, a process of its own. It sends bid requests, each with a new id; or it asks for standalone
 * prices, keeps their contexts, and sends one win notice for each.
 */
import { gzipSync } from 'node:zlib'
import { type Outcome as Driven, drive, type Load } from './client.ts'
import { bidRequests, requestHead, stamper } from './traffic.ts'

type Sent =
  /** Paths, such as `/bid/bench?kind=vast`: each is sent with every body. `most`: requests at most. */
  | { what?: 'bids'; paths: readonly string[]; most?: number; encoding?: 'gzip' }
  /** `bids`: of one call. `most`: contexts that are kept at most. */
  | { what: 'prices'; token: string; bids: number; most: number }
  | { what: 'notices' }
type Common = 'port' | 'secure' | 'renew' | 'connections' | 'rate' | 'warm' | 'measure' | 'watch'
export type Job = Pick<Load, Common> & Sent

export interface Outcome extends Driven {
  /** Bids priced, or wins that the service has acknowledged, the warm-up included. */
  total: number
  /** Contexts that no notice was sent for. */
  left: number
}

/** The next request, and the number of bids or wins in a response; 0: it is not the expected response. */
interface Traffic {
  next: Load['next']
  worth: (response: Parameters<Load['kind']>[0]) => number
}

/** Compressed bytes have no placeholders: eight different messages of each body are sent in turn. */
const compressed = (path: string): (() => Buffer)[] =>
  Array.from({ length: 8 }, () => bidRequests).flatMap((bodies) =>
    bodies.map((body) => {
      const bytes = gzipSync(stamper(body)())
      const head = requestHead(path, bytes.length, 'Content-Encoding: gzip\r\n')
      const message = Buffer.concat([head, bytes])
      return () => message
    }),
  )

function bidTraffic(
  paths: readonly string[],
  most = Number.POSITIVE_INFINITY,
  encoding?: 'gzip',
): Traffic {
  const plain = Array.from({ length: paths.length * bidRequests.length }, (_each, index) => {
    const body = bidRequests[Math.floor(index / paths.length) % bidRequests.length]!
    return stamper(Buffer.concat([requestHead(paths[index % paths.length]!, body.length), body]))
  })
  const ready = encoding === undefined ? plain : paths.flatMap(compressed)
  let sent = 0
  return {
    next: () => (sent < most ? ready[sent++ % ready.length]!() : null),
    // A no-bid with a reason comes from the proxy itself.
    worth: ({ status, head }) =>
      status === 200 || (status === 204 && !/\r\nx-bidweir-reason:/i.test(head)) ? 1 : 0,
  }
}

/** Notices that were not sent yet. */
const notices: Buffer[] = []
let made = 0

function priceRequest(token: string, bids: number): Buffer {
  const bid = Array.from({ length: bids }, () => {
    const id = `${process.pid.toString(36)}-${(made++).toString(36)}`
    return { id, impid: '1', price: 1 + (made % 397) / 100, dsp_id: `d${made % 7}`, price_dsp: 6 }
  })
  const publisher = { id: `p${made % 300}` }
  const body = JSON.stringify({
    seatbid: [{ seat: 's', bid }],
    imp: [{ id: '1', bidfloor: 0.4, banner: { w: 300, h: 250 } }],
    site: { domain: `news${made % 300}.example`, publisher },
    device: { geo: { country: 'DEU' }, devicetype: 2 },
  })
  const more = `Authorization: Bearer ${token}\r\n`
  return Buffer.concat([requestHead('/opd/bench_yesbid', body.length, more), Buffer.from(body)])
}

function keepContexts(body: string): number {
  const entries = JSON.parse(body) as { id: string; modified_price: number; svc_opd: string }[]
  for (const { id, modified_price, svc_opd } of entries) {
    const path = `/opd/imp?bid_id=${id}&price=${modified_price}&svc_opd=${svc_opd}`
    notices.push(Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bids.example\r\n\r\n`))
  }
  return entries.length
}

function trafficOf(job: Job): Traffic {
  if (job.what === 'prices')
    return {
      next: () => (notices.length < job.most ? priceRequest(job.token, job.bids) : null),
      worth: ({ status, body }) => (status === 200 ? keepContexts(body()) : 0),
    }
  if (job.what === 'notices')
    return {
      next: () => notices.pop() ?? null,
      worth: ({ body }) => (body().startsWith('{"status":"attributed"') ? 1 : 0),
    }
  return bidTraffic(job.paths, job.most, job.encoding)
}

process.on('message', async (job: Job) => {
  const { next, worth } = trafficOf(job)
  let total = 0
  const kind: Load['kind'] = (response) => {
    const count = worth(response)
    total += count
    return count > 0 ? 'good' : 'failed'
  }
  const outcome = await drive({ ...job, next, kind })
  process.send!({ ...outcome, total, left: notices.length } satisfies Outcome)
})
