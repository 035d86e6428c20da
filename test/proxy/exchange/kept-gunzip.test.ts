/** gzip is decoded with one zlib handle for all messages, or without it. */
import { createHook } from 'node:async_hooks'
import { constants, deflateSync, gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { KeptGunzip, openKeptGunzip } from '../../../proxy/exchange/kept-gunzip.ts'
import { idleEngine, startProxy } from '../../support/proxy.ts'
import { source } from '../../support/random.ts'
import { keptOpen, post } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'

const kilobytes = (count: number) => 1024 * count
const limit = kilobytes(256)

t.test('this Node.js keeps handles as expected', (t) => {
  const lines: object[] = []
  const write = (fields: object) => void lines.push(fields)
  t.ok(openKeptGunzip({ info: write, warn: write, error: write }))
  t.strictSame(lines, [])
  t.end()
})

const others: Record<string, [() => KeptGunzip, RegExp]> = {
  'has no such handle': [
    () => {
      throw new TypeError('no _handle')
    },
    /no _handle/,
  ],
  'keeps no limit': [
    () => {
      const kept = new KeptGunzip()
      const decode = kept.decode.bind(kept)
      return Object.assign(kept, { decode: (body: Uint8Array) => decode(body, limit) })
    },
    /limit/,
  ],
  'reports no error': [
    () => Object.assign(new KeptGunzip(), { decode: () => Buffer.from('{}') }),
    /a stream that is cut is decoded/,
  ],
}

for (const [name, [create, reason]] of Object.entries(others))
  t.test(`a Node.js that ${name} is noticed, and logged once`, (t) => {
    const lines: object[] = []
    const write = (fields: object) => void lines.push(fields)
    t.equal(openKeptGunzip({ info: write, warn: write, error: write }, create), null)
    t.match(lines, [{ node: process.version, reason }])
    t.equal(lines.length, 1)
    t.end()
  })

t.test('any body comes out as it went in, whatever came before it', (t) => {
  const kept = new KeptGunzip()
  const random = source(7)
  const faults: string[] = []
  for (let n = 0; n < 200; n++) {
    const length = Math.floor(random() ** 3 * kilobytes(63)) + 1
    const letters = 1 + Math.floor(random() * 255)
    const body = Buffer.from(Array.from({ length }, () => Math.floor(random() * letters)))
    const coded = gzipSync(body, { level: Math.floor(random() * 10) })
    if (kept.decode(coded, limit)?.equals(body) !== true) faults.push(`${n}: decode`)
    const cut = coded.subarray(0, Math.floor(random() * coded.length))
    if (kept.decode(cut, limit) !== null) faults.push(`${n}: a part of a stream`)
    const damaged = Buffer.from(coded)
    damaged[Math.floor(random() * (coded.length - 10)) + 10]! ^= 1 + Math.floor(random() * 255)
    const read = kept.decode(damaged, limit)
    if (read !== null && !read.equals(body)) faults.push(`${n}: a damaged stream`)
  }
  t.strictSame(faults, [])
  t.end()
})

t.test('what is not one whole gzip member within the limit is left to zlib', (t) => {
  const kept = new KeptGunzip()
  const body = Buffer.alloc(1000, 'x')
  const coded = gzipSync(body)
  const rows: Record<string, Buffer> = {
    nothing: Buffer.alloc(0),
    'the beginning alone': gzipSync(body, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -8),
    'bytes behind it': Buffer.concat([coded, Buffer.from('{}')]),
    'a zero behind it': Buffer.concat([coded, Buffer.alloc(1)]),
    'two members': Buffer.concat([coded, coded]),
    deflate: deflateSync(body),
    text: Buffer.from('{"id":"1"}'),
    'a bomb': gzipSync(Buffer.alloc(kilobytes(2048))),
  }
  for (const [name, input] of Object.entries(rows)) t.equal(kept.decode(input, limit), null, name)
  t.equal(kept.decode(coded, 1000), null, 'as long as the limit')
  t.strictSame(kept.decode(coded, 1001), body)
  t.end()
})

t.test('gzip requests and responses make no zlib objects', async (t) => {
  const answer = gzipSync('{"seatbid":[]}')
  const supplier = await rawSupplier((socket) => {
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${answer.length}\r\n\r\n`,
    )
    socket.write(answer)
  })
  const changed = Buffer.from('{"seatbid":[1]}')
  const engine = idleEngine({
    readsResponses: () => true,
    rewrite: () => ({ body: changed, reason: null, removed: 0, left: 0, unreadable: false }),
  })
  const proxy = await startProxy({ acme: { endpoints: [supplier.url] } }, { engine })
  const caller = keptOpen(proxy.port)
  t.teardown(() => {
    caller.end()
    return Promise.all([proxy.close(), supplier.close()])
  })
  const request = post('/bid/acme', gzipSync('{"tmax":20000}'), 'Content-Encoding: gzip\r\n')
  let objects = 0
  const hook = createHook({
    init(_id, type) {
      if (type === 'ZLIB') objects++
    },
  }).enable()
  const bodies = new Set<string>()
  for (let n = 0; n < 50; n++) bodies.add((await caller.ask(request)).body)
  hook.disable()
  t.strictSame(
    [...bodies].map((body) => gunzipSync(Buffer.from(body, 'latin1')).toString()),
    [changed.toString()],
  )
  t.equal(objects, 0)
})
