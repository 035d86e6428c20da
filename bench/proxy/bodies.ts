/** What goes over the wire in the benchmark: answers of each kind, and requests of 2.7 to 3 KB. */
import { gzipSync } from 'node:zlib'
import { mulberry32 } from '../../opd/shared/random.ts'
import { publishers } from '../../service/demo/market.ts'
import { makeRequest } from '../../service/demo/requests.ts'

const notice = (bid: string) =>
  `https://win.supplier.example/n?bid_id=${bid}&price=\${AUCTION_PRICE}&svc_opd=\${SVC_OPD_CONTEXT}&out=\${SVC_OPD_OUT_BID_PRICE}`

function bid(at: number, bytes: number, mtype: number) {
  const id = `bid-${at}`
  const tag = `<a href="https://shop.example/?c=${id}"><img src="https://cdn.example/300x250.png" width="300" height="250"></a>`
  const one = {
    ...{ id, impid: '1', price: 2.4731, nurl: notice(id), burl: notice(id) },
    ...{ adomain: ['shop.example'], crid: 'cr-1', cid: 'c-1', mtype, w: 300, h: 250, adm: '' },
  }
  one.adm = tag.repeat(
    1 + Math.max(0, Math.floor((bytes - JSON.stringify(one).length) / (tag.length + 10))),
  )
  return one
}

const answer = (bids: ReturnType<typeof bid>[]) =>
  Buffer.from(
    JSON.stringify({ id: 'auction', cur: 'USD', seatbid: [{ seat: 'seat-1', bid: bids }] }),
  )

function http(status: string, body: Buffer, headers = ''): Buffer {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

const single = answer([bid(1, 2900, 1)])
const video = answer([bid(1, 12_000, 2)])

/** Whole answers by `?kind=`; `bids-N` holds N bids of 600 bytes. */
export const answers: Readonly<Record<string, Buffer>> = {
  'no-bid': Buffer.from('HTTP/1.1 204 No Content\r\n\r\n'),
  bid: http('200 OK', single),
  vast: http('200 OK', video),
  gzip: http('200 OK', gzipSync(single), 'Content-Encoding: gzip\r\n'),
  ...Object.fromEntries(
    [1, 10, 50, 200].map((count) => [
      `bids-${count}`,
      http('200 OK', answer(Array.from({ length: count }, (_, at) => bid(at, 600, 1)))),
    ]),
  ),
}

/** 70 % no-bid, 25 % bid, 5 % VAST, in an order that repeats every hundred. */
export const mix: readonly Buffer[] = Array.from({ length: 100 }, (_, at) => {
  const place = (at * 37) % 100
  return answers[place < 70 ? 'no-bid' : place < 95 ? 'bid' : 'vast']!
})

/** Request bodies: many, so that nothing profits from seeing one again and again. */
export function requestBodies(count: number): Buffer[] {
  const random = mulberry32(11)
  const list = publishers(1)
  return Array.from({ length: count }, (_, at) => {
    const { body } = makeRequest(`r${at}`, list[at % list.length]!, 'banner', random)
    // With 4,096 connections on few cores an answer takes longer than any real tmax.
    return Buffer.from(body.replace('"tmax":200', '"tmax":5000'))
  })
}
