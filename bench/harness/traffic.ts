/**
 * Requests and responses as exchanges and bidders send them: eight dense bid requests of 2.6 to 2.9 KB, a bid of 3 KB and a
 * VAST of 12 KB with 13 macros in four fields, UTF-8 and escapes. Each message that is sent has new ids.
 */
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

/** The placeholder of a serial number. */
const mark = '@@@@@@@@@@@@'
let serial = 0
const nextSerial = () =>
  ((process.pid % 100_000) * 1e10 + serial++).toString(36).padStart(mark.length, '0')

/** Returns copies of the bytes, each with new serial numbers. */
export function stamper(bytes: Buffer): () => Buffer {
  const places: number[] = []
  for (let place = bytes.indexOf(mark); place >= 0; place = bytes.indexOf(mark, place + 1))
    places.push(place)
  return () => {
    const copy = Buffer.from(bytes)
    for (const place of places) copy.write(nextSerial(), place, 'latin1')
    return copy
  }
}

const linesOf = (file: string) =>
  readFileSync(new URL(`traffic/${file}`, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')

const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')

/** The head of the first HTTP message in `data`, and the length of the message; null: the message is incomplete. */
export function firstMessage(data: Buffer): { head: string; length: number } | null {
  const end = data.indexOf(headEnd)
  if (end < 0) return null
  const head = data.toString('latin1', 0, end)
  const body = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  let length = end + headEnd.length + Number(body ?? 0)
  if (body === undefined && /\r\ntransfer-encoding:/i.test(head)) {
    const last = data.indexOf(lastChunk, length)
    if (last < 0) return null
    length = last + lastChunk.length
  }
  return data.length < length ? null : { head, length }
}

/** Bodies, with placeholders. */
export const bidRequests: readonly Buffer[] = linesOf('requests.ndjson').map((line) =>
  Buffer.from(line),
)

/** The head has six fields, and those of `more`. */
export const requestHead = (path: string, length: number, more = '') =>
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: bids.example\r\nUser-Agent: exchange/4.2\r\nContent-Type: application/json\r\nAccept: application/json\r\nX-OpenRTB-Version: 2.6\r\n${more}Content-Length: ${length}\r\n\r\n`,
  )

const [bid = '', vast = ''] = linesOf('bids.ndjson')
const link = (event: string) =>
  `https://t.bidder.example/${event}?a=\${AUCTION_ID}&p=\${AUCTION_PRICE}&svc_opd=\${SVC_OPD_CONTEXT}&in=\${SVC_OPD_IN_BID_PRICE}&out=\${SVC_OPD_OUT_BID_PRICE}&mode=\${SVC_OPD_MODE}`
const smallBid = {
  ...{ id: `bid-${mark}`, impid: '1', price: 2.4731, nurl: link('win') },
  adm: `<img src="${link('view')}" width="1" height="1" alt="" style="display:none">`,
  ...{ adomain: ['fruits.example'], crid: 'k4t0a1v9c2', cid: 'c-20', mtype: 1, w: 300, h: 250 },
}
/** The response to one bid request, with `count` bids of 600 bytes. */
function smallBids(count: number): Buffer {
  const { id, cur, bidid } = JSON.parse(bid) as Record<string, string>
  const bids = Array<object>(count).fill(smallBid)
  return Buffer.from(JSON.stringify({ id, cur, bidid, seatbid: [{ seat: '4711', bid: bids }] }))
}

/** Bid responses by `?kind=`, with placeholders. */
export const bodies: Readonly<Record<string, Buffer>> = {
  ...{ bid: Buffer.from(bid), vast: Buffer.from(vast) },
  ...Object.fromEntries([1, 10, 100, 200].map((count) => [`bids-${count}`, smallBids(count)])),
}

/** A response with a body has six fields. */
function http(status: string, body: Buffer = Buffer.alloc(0), more = ''): Buffer {
  const content = `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n`
  const head = `HTTP/1.1 ${status}\r\nServer: supplier\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n${body.length === 0 ? '' : content}${more}Connection: keep-alive\r\nX-OpenRTB-Version: 2.6\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

/** Compressed bytes have no placeholders: 64 different ones are sent in turn. */
const stampedBid = stamper(bodies['bid']!)
const gzipped = Array.from({ length: 64 }, () =>
  http('200 OK', gzipSync(stampedBid()), 'Content-Encoding: gzip\r\n'),
)
let taken = 0

/** The bid in one chunk. */
const chunked = Buffer.concat([
  Buffer.from(
    `HTTP/1.1 200 OK\r\nServer: supplier\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Type: application/json; charset=utf-8\r\nTransfer-Encoding: chunked\r\nX-OpenRTB-Version: 2.6\r\n\r\n${bodies['bid']!.length.toString(16)}\r\n`,
  ),
  bodies['bid']!,
  Buffer.from('\r\n0\r\n\r\n'),
])

/** Whole responses by `?kind=`. */
export const responses: Readonly<Record<string, () => Buffer>> = {
  'no-bid': stamper(http('204 No Content')),
  ...Object.fromEntries(
    Object.entries(bodies).map(([kind, body]) => [kind, stamper(http('200 OK', body))]),
  ),
  chunked: stamper(chunked),
  gzip: () => gzipped[taken++ % gzipped.length]!,
}

/** A hundred responses: 70 no-bids, 25 bids, 5 VAST. */
export const mix: readonly (() => Buffer)[] = Array.from(
  { length: 100 },
  (_each, rank) => responses[rank < 70 ? 'no-bid' : rank < 95 ? 'bid' : 'vast']!,
)
