import { gunzipSync } from 'node:zlib'
import t from 'tap'
import {
  bidRequests,
  bodies,
  mix,
  requestHead,
  responses,
  stamper,
} from '../../bench/harness/traffic.ts'

const textOf = (message: Buffer) => String(message.subarray(message.indexOf('\r\n\r\n') + 4))
const headOf = (message: Buffer) => message.toString('latin1', 0, message.indexOf('\r\n\r\n'))

/** Braces, brackets, colons, commas and quotes outside strings: what a scanner has to look at. */
function structural(text: string): number {
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/g, '""')
  return outside.match(/[{}[\]:,"]/g)!.length
}

t.test('requests are as dense as real ones, and their floors as awkward', async (t) => {
  t.equal(bidRequests.length, 8)
  const texts = bidRequests.map(String)
  for (const text of texts) {
    t.ok(text.length >= 2500 && text.length <= 3000, `${text.length} characters`)
    t.ok(structural(text) >= 795, `${structural(text)} structural characters`)
    t.ok(Buffer.byteLength(text) > text.length, 'more than ASCII')
  }
  t.ok(texts.some((text) => /"bidfloor":0\.57\d{10,}/.test(text)))
  for (const [imp] of texts.map((text) => JSON.parse(text).imp)) t.ok(imp.bidfloor < 2.4731)
})

t.test('a bid has 3 KB and a VAST 12 KB, with 13 macros in four fields', async (t) => {
  for (const [kind, size] of [
    ['bid', 3000],
    ['vast', 11_700],
  ] as const) {
    const text = String(bodies[kind])
    t.ok(Math.abs(Buffer.byteLength(text) - size) < 200, `${Buffer.byteLength(text)} bytes`)
    const [
      {
        bid: [bid],
      },
    ] = JSON.parse(text).seatbid
    const fields = ['adm', 'nurl', 'burl', 'lurl'].map((name) => bid[name] as string)
    for (const field of fields) t.match(field, 'svc_opd=${SVC_OPD_CONTEXT}')
    t.equal(fields.join().match(/\$\{SVC_OPD_\w+\}/g)!.length, 13)
    t.match(text, /[^\0-\x7f]/)
  }
  t.ok(String(bodies['vast']).match(/\\"/g)!.length > 250)
})

t.test('every message has six fields', async (t) => {
  t.equal(headOf(requestHead('/bid/a', 3)).split('\r\n').length, 1 + 6)
  t.equal(headOf(responses['bid']!()).split('\r\n').length, 1 + 6)
})

t.test('no id is sent twice', async (t) => {
  const send = stamper(bidRequests[0]!)
  const [one, other] = [send(), send()].map((body) => JSON.parse(String(body)))
  t.equal(one.id.length, 36)
  t.not(one.id, other.id)
  t.not(one.source.tid, other.source.tid)
  const ids = [1, 2].flatMap(() =>
    JSON.parse(textOf(responses['bids-100']!())).seatbid[0].bid.map(({ id }: { id: string }) => id),
  )
  t.equal(new Set(ids).size, 200)
  const gzipped = responses['gzip']!()
  const body = gunzipSync(gzipped.subarray(gzipped.indexOf('\r\n\r\n') + 4))
  t.equal(JSON.parse(String(body)).seatbid[0].bid.length, 1)
})

t.test('the mix is 70 % no-bids, 25 % bids, 5 % VAST', async (t) => {
  const share = (kind: string) => mix.filter((response) => response === responses[kind]).length
  t.strictSame([share('no-bid'), share('bid'), share('vast')], [70, 25, 5])
})
