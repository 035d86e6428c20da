/** Responses in every framing and encoding: changed bodies keep their encoding, others are forwarded byte for byte. */
import { randomBytes } from 'node:crypto'
import * as zlib from 'node:zlib'
import t from 'tap'
import { codings, framings, unchunked } from '../../support/framings.ts'
import { idleEngine, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'

const before = `{"seatbid":[],"pad":"${'a'.repeat(500)}"}`
const after = `{"seatbid":[1],"pad":"${'b'.repeat(500)}"}`

let plan: { coding: string; framing: string; extra: string; body?: Buffer }
/** Why responses were not read, in their order. */
const unread: string[] = []
const changing = idleEngine({
  readsResponses: () => true,
  countUnmodified: (_ssp, reason) => void unread.push(reason),
  rewrite: ({ body }) => ({
    body: body.toString() === before ? Buffer.from(after) : body,
    reason: null,
    removed: 0,
    left: 1,
    unreadable: false,
  }),
})

async function setUp(t: { teardown(fn: () => unknown): void }, options = {}) {
  const supplier = await rawSupplier((socket) => {
    const body = plan.body ?? codings[plan.coding]![0](Buffer.from(before))
    const name = plan.coding.replace('raw ', '')
    const encoding = plan.coding === 'identity' ? '' : `Content-Encoding: ${name}\r\n`
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: "1"\r\nDigest: x\r\n${encoding}${plan.extra}`
    for (const part of framings[plan.framing]!(body, head)) socket.write(part)
    if (plan.framing === 'close-delimited') socket.end()
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    { engine: changing, proxy: options },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return proxy
}

t.test('a changed body keeps its encoding, has a right length and no digests', async (t) => {
  const proxy = await setUp(t)
  for (const coding of Object.keys(codings))
    for (const framing of Object.keys(framings)) {
      plan = { coding, framing, extra: '' }
      const answer = await raw(proxy.port, post('/bid/acme', '{}'))
      const body = Buffer.from(answer.body, 'latin1')
      t.equal(codings[coding]![1](body).toString(), after, `${coding}, ${framing}`)
      const named = coding === 'identity' ? undefined : coding.replace('raw ', '')
      t.equal(answer.headers['content-encoding'], named)
      t.equal(answer.headers['content-length'], String(body.length))
      t.equal(answer.headers['etag'], undefined)
      t.equal(answer.headers['digest'], undefined)
    }
})

t.test('recompress: identity sends a changed body without its encoding', async (t) => {
  const proxy = await setUp(t, { recompress: 'identity' })
  plan = { coding: 'gzip', framing: 'chunked', extra: '' }
  const answer = await raw(proxy.port, post('/bid/acme', '{}'))
  t.equal(answer.body, after)
  t.equal(answer.headers['content-encoding'], undefined)
})

t.test('what may not be looked at, or does not decode, comes back byte for byte', async (t) => {
  const proxy = await setUp(t)
  const cases: [string, typeof plan][] = [
    [
      'no-transform',
      { coding: 'gzip', framing: 'chunked', extra: 'Cache-Control: private, No-Transform\r\n' },
    ],
    [
      'a stacked encoding',
      { coding: 'identity', framing: 'chunked', extra: 'Content-Encoding: gzip, br\r\n' },
    ],
    [
      'not gzip after all',
      { coding: 'gzip', framing: 'chunked', extra: '', body: Buffer.from('plain') },
    ],
    [
      'cut gzip',
      {
        coding: 'gzip',
        framing: 'chunked',
        extra: '',
        body: zlib.gzipSync(before).subarray(0, 40),
      },
    ],
    [
      'a bomb',
      {
        coding: 'gzip',
        framing: 'chunked',
        extra: '',
        body: zlib.gzipSync(Buffer.alloc(64 << 20)),
      },
    ],
  ]
  for (const [title, response] of cases) {
    plan = response
    const sent = response.body ?? codings[response.coding]![0](Buffer.from(before))
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    const body = answer.headers['transfer-encoding'] ? unchunked(answer.body) : answer.body
    t.ok(Buffer.from(body, 'latin1').equals(sent), title)
    t.equal(answer.headers['etag'], '"1"', title)
  }
})

t.test('a gzip stream may have several members', async (t) => {
  const proxy = await setUp(t)
  for (const cuts of [[9], [1, 2, 300], [before.length], [0, 0]]) {
    const ends = [...cuts, before.length]
    const members = ends.map((end, n) => zlib.gzipSync(before.slice(ends[n - 1] ?? 0, end)))
    for (const framing of Object.keys(framings)) {
      plan = { coding: 'gzip', framing, extra: '', body: Buffer.concat(members) }
      const answer = await raw(proxy.port, post('/bid/acme', '{}'))
      const body = zlib.gunzipSync(Buffer.from(answer.body, 'latin1')).toString()
      t.equal(body, after, `${framing}, members end at ${ends}`)
    }
  }
})

t.test('bytes behind a compressed stream are forwarded with it', async (t) => {
  const proxy = await setUp(t)
  const tails: [string, Buffer][] = [
    ['a zero byte', Buffer.alloc(1)],
    ['zero bytes', Buffer.alloc(512)],
    ['a line end', Buffer.from('\r\n')],
    ['other bytes', Buffer.from('junk')],
    ['the beginning of a gzip member', Buffer.from([0x1f, 0x8b])],
  ]
  const noise = randomBytes(90_000).toString('base64')
  for (const text of [before, `{"seatbid":[],"pad":"${noise}"}`])
    for (const coding of Object.keys(codings)) {
      if (coding === 'identity') continue
      const stream = codings[coding]![0](Buffer.from(text))
      // Behind a gzip member, another one is part of the stream.
      const behind = coding === 'gzip' ? tails : [...tails, ['the same stream', stream] as const]
      for (const [title, tail] of behind) {
        const sent = Buffer.concat([stream, tail])
        plan = { coding, framing: 'Content-Length', extra: '', body: sent }
        unread.length = 0
        const answer = await raw(proxy.port, post('/bid/acme', '{}'))
        const length = text === before ? 'short' : 'long'
        t.ok(Buffer.from(answer.body, 'latin1').equals(sent), `${length} ${coding}, ${title}`)
        t.strictSame(unread, ['encoding'], `${length} ${coding}, ${title}: counted`)
      }
    }
})
