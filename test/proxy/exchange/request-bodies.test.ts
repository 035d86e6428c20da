/** Encoded bid requests: forwarded unchanged, and decoded within bounds of bytes, memory and number (CONTRACT 3). */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import * as zlib from 'node:zlib'
import t from 'tap'
import { bidReasons } from '../../../opd/shared/reasons.ts'
import { RequestDecoder } from '../../../proxy/exchange/request-decoder.ts'
import { testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'
import { newFolder } from '../../support/process.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const KiB = 1024
const bid =
  '{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"nurl":"https://t.example/?svc_opd=${SVC_OPD_CONTEXT}"}]}]}'
const json = 'Content-Type: application/json\r\n'
const gzip = 'Content-Encoding: gzip\r\n'

/** A request of so many bytes that wins a bid; `filler` is what makes it long. */
function request(length: number, filler = ' ', tmax = 4000): Buffer {
  const [start, end] = [`{"tmax":${tmax},"id":"a","x":"`, '","imp":[{"id":"1"}]}']
  const room = Math.max(0, length - start.length - end.length)
  return Buffer.from(start + filler.repeat(Math.ceil(room / filler.length)).slice(0, room) + end)
}
/** Text that gzip halves, and text that it packs 40 times. */
const noise = randomBytes(512 * KiB).toString('hex')
const words = noise.slice(0, 32 * KiB).replace(/.{50}/g, (some) => some + ' '.repeat(1500))

type Teardown = { teardown(fn: () => unknown): void }

/** A supplier that bids on everything, behind an integration with OPD on. */
async function setUp(
  t: Teardown,
  options: { proxy?: object; timeout?: string; bid?: string } = {},
) {
  const { engine } = testEngine({ integrations: [integration('acme')] })
  const supplier = await rawSupplier((socket) =>
    socket.write(answerText('200 OK', options.bid ?? bid, json)),
  )
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: options.timeout ?? '10s' } },
    { engine, proxy: options.proxy ?? {} },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const ask = (body: Buffer, coding: string) => raw(proxy.port, post('/bid/acme', body, coding))
  const decodedBytes = () => sample(proxy.registry, 'bidweir_request_decoded_bytes_total')
  const held = () => sample(proxy.registry, 'bidweir_held_bytes')
  return { engine, supplier, proxy, ask, decodedBytes, held }
}

const notRead = (engine: { stats: ReturnType<typeof testEngine>['engine']['stats'] }) =>
  engine.stats.supplierStats('acme').modes.revenue.left[bidReasons.indexOf('request')]

t.test('identity and gzip are read, other encodings are passed on and not read', async (t) => {
  const { engine, supplier, ask } = await setUp(t)
  const plain = request(300)
  const rows: [string, Buffer, boolean][] = [
    ['identity', plain, true],
    ['gzip', zlib.gzipSync(plain), true],
    ['x-gzip', zlib.gzipSync(plain), true],
    ['GZIP', zlib.gzipSync(plain), true],
    ['br', zlib.brotliCompressSync(plain), false],
    ['deflate', zlib.deflateSync(plain), false],
    ['zstd', plain, false],
    ['gzip, gzip', zlib.gzipSync(zlib.gzipSync(plain)), false],
    ['gzip', plain, false],
    ['gzip', zlib.gzipSync(plain).subarray(0, 60), false],
    ['gzip', Buffer.alloc(0), false],
  ]
  let left = 0
  for (const [coding, body, read] of rows) {
    const answer = await ask(body, `Content-Encoding: ${coding}\r\n`)
    const title = `${coding}, ${body.length} bytes`
    t.equal(answer.status, 200, title)
    t.equal(answer.body === bid, !read, title)
    t.equal(supplier.requests.at(-1)!.body, body.toString('latin1'), title)
    left += read ? 0 : 1
  }
  t.equal(notRead(engine), left, 'counted as `request`')
})

t.test(
  'a long gzip request is decoded whole where a bid is priced, to maxRequestBytes',
  async (t) => {
    const limit = 256 * KiB
    const { engine, ask, held } = await setUp(t, { proxy: { maxRequestBytes: limit } })
    for (const filler of [words, noise])
      for (const length of [60 * KiB, 70 * KiB, limit]) {
        const answer = await ask(zlib.gzipSync(request(length, filler)), gzip)
        t.match(JSON.parse(answer.body), { seatbid: [{ bid: [{ price: 1.8 }] }] }, `${length}`)
      }
    t.equal(notRead(engine), 0)
    t.equal((await ask(zlib.gzipSync(request(limit + 1, noise)), gzip)).body, bid)
    const cut = zlib.gzipSync(request(limit, noise))
    t.equal((await ask(cut.subarray(0, cut.length - 9), gzip)).body, bid, 'one that is cut')
    t.equal(notRead(engine), 2)
    t.equal((await ask(zlib.gzipSync(request(limit)), gzip)).body, bid, 'packed 1,000 times')
    t.equal(notRead(engine), 3)
    t.equal(await held(), 0)
  },
)

t.test('tmax of a long gzip request is read before it goes out', async (t) => {
  const silent = await rawSupplier(() => {})
  const proxy = await startProxy({ acme: { endpoints: [silent.url], timeout: '60s' } })
  t.teardown(() => Promise.all([proxy.close(), silent.close()]))
  for (const filler of [words, noise])
    for (const length of [60 * KiB, 70 * KiB, 900 * KiB]) {
      const body = zlib.gzipSync(request(length, filler, 20))
      const answer = await raw(proxy.port, post('/bid/acme', body, gzip))
      t.equal(answer.headers['x-bidweir-reason'], 'timeout', `${length}`)
    }
})

/** A bomb of 4 KB with a false, short length at its end. */
function falseLength(): Buffer {
  const bomb = zlib.gzipSync(request(4 * KiB * KiB), { level: 9 })
  bomb.writeUInt32LE(300, bomb.length - 4)
  return bomb
}

t.test('only the beginning of a bomb is decoded, if anything', async (t) => {
  const noBid = '{"seatbid":[]}'
  const { ask, decodedBytes, supplier } = await setUp(t, { bid: noBid })
  const spaces = Buffer.concat([Buffer.from('{'), Buffer.alloc(4 * KiB * KiB, ' ')])
  const bomb = zlib.gzipSync(spaces, { level: 9 })
  t.ok(bomb.length < 4200)
  t.equal((await ask(bomb, gzip)).body, noBid)
  t.equal(await decodedBytes(), 0, 'its length shows the bomb')
  t.equal((await ask(falseLength(), gzip)).body, noBid)
  t.ok((await decodedBytes()) > 0)
  t.ok((await decodedBytes()) <= 8 * 64 * KiB, `${await decodedBytes()} bytes`)
  const before = await decodedBytes()
  for (const [coding, body] of [
    ['br', zlib.brotliCompressSync(spaces)],
    ['deflate', zlib.deflateSync(spaces)],
  ] as const)
    t.equal((await ask(body, `Content-Encoding: ${coding}\r\n`)).body, noBid)
  t.equal(await decodedBytes(), before, 'br and deflate cost nothing')
  t.equal(supplier.requests.length, 4)
})

t.test('good bids beside 64 bombs at a time are all answered', async (t) => {
  const { ask, held, proxy } = await setUp(t)
  const bomb = falseLength()
  const answers = { good: 0, bombs: 0 }
  const plain = request(300)
  const bombing = Array.from({ length: 64 }, async () => {
    for (let nth = 0; nth < 4; nth++)
      if ([200, 204].includes((await ask(bomb, gzip)).status)) answers.bombs++
  })
  for (let nth = 0; nth < 100; nth++) {
    const { status, body } = await ask(plain, '')
    if (status === 200 && body !== bid) answers.good++
  }
  await Promise.all(bombing)
  t.same(answers, { good: 100, bombs: 256 })
  t.equal(await held(), 0)
  for (const state of ['running', 'waiting'])
    t.equal(await sample(proxy.registry, `bidweir_request_decodes{state="${state}"}`), 0)
})

t.test('few whole requests are decoded at once, few wait, the rest is refused', async (t) => {
  const budget = { inFlight: 0, bytes: 0, kept: 0 }
  const limits = { maxRequestBytes: 256 * KiB, maxHeldBytes: 64 * KiB * KiB }
  const decoder = new RequestDecoder(budget, () => limits, null)
  const body = request(256 * KiB, noise)
  const wire = zlib.gzipSync(body)
  const wanted = () => true
  const decodes = Array.from({ length: 70 }, () => decoder.decodeWhole(wire, wanted))
  t.match(decoder, { running: 2, waiting: 64 })
  t.equal(budget.bytes, 2 * limits.maxRequestBytes, 'reserved first')
  const ended = await Promise.all(decodes)
  t.equal(ended.filter((reason) => reason === 'overload').length, 4)
  t.equal(ended.filter((outcome) => outcome !== 'overload' && outcome?.equals(body)).length, 66)
  t.match(decoder, { running: 0, waiting: 0 })
  t.equal(budget.bytes, 0)
})

t.test('nothing is decoded without the memory for it', async (t) => {
  const budget = { inFlight: 0, bytes: 0, kept: 0 }
  const limits = { maxRequestBytes: 256 * KiB, maxHeldBytes: 256 * KiB }
  const decoder = new RequestDecoder(budget, () => limits, null)
  const long = zlib.gzipSync(request(256 * KiB, noise))
  budget.bytes = 1
  t.equal(await decoder.decodeWhole(long, () => true), 'overload')
  t.match(decoder.start(long), { isWhole: false })
  budget.bytes = limits.maxHeldBytes - 60 * KiB
  t.equal(decoder.start(long), 'overload')
  const decoded = decoder.bytes
  t.equal(
    await decoder.decodeWhole(zlib.gzipSync('{}'), () => false),
    null,
    'nobody wants it any more',
  )
  t.equal(decoder.bytes, decoded)
  budget.bytes = 0
  const packed = zlib.gzipSync(request(256 * KiB))
  t.equal(await decoder.decodeWhole(packed, () => true), null, 'its length shows the bomb')
  packed.writeUInt32LE(9, packed.length - 4)
  const wasted = decoder.bytes
  t.equal(await decoder.decodeWhole(packed, () => true), null, 'one with a false length')
  t.ok(decoder.bytes - wasted <= 64 * KiB)
  t.equal(budget.bytes, 0)
})

t.test('a gzip request counts as held as it came and as it is decoded', async (t) => {
  const silent = await rawSupplier(() => {})
  const proxy = await startProxy({ acme: { endpoints: [silent.url], timeout: '20s' } })
  t.teardown(() => Promise.all([proxy.close(), silent.close()]))
  for (const [length, counted] of [
    [100, 100],
    [60 * KiB, 60 * KiB],
    [900 * KiB, 0],
  ] as const) {
    const body = zlib.gzipSync(request(length))
    const caller = callTo(proxy.port)
    caller.write(post('/bid/acme', body, gzip))
    const before = silent.requests.length
    await until(() => silent.requests.length > before)
    t.equal(await sample(proxy.registry, 'bidweir_held_bytes'), body.length + counted)
    caller.destroy()
    await until(async () => (await sample(proxy.registry, 'bidweir_held_bytes')) === 0)
  }
})

t.test('the deadline runs while a request waits to be decoded', async (t) => {
  const { ask, held } = await setUp(t, { timeout: '200ms' })
  const pipe = join(newFolder(), 'pipe')
  execFileSync('mkfifo', [pipe])
  // The four threads that decode wait for a writer of the pipe.
  const busy: Promise<FileHandle>[] = Array.from({ length: 4 }, () => open(pipe))
  const asked = ask(zlib.gzipSync(request(900 * KiB, noise)), gzip)
  const answer = await asked.finally(async () => {
    const writer = openSync(pipe, 'r+')
    for (const socket of busy) await (await socket).close()
    closeSync(writer)
  })
  t.equal(answer.headers['x-bidweir-reason'], 'timeout', 'before a thread is free')
  await until(async () => (await held()) === 0)
})
