/** Raw frames to the gRPC server below the agent listener: limits and attacks. */
import { once } from 'node:events'
import { constants } from 'node:http2'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import * as fc from 'fast-check'
import t from 'tap'
import { encodeHeaders } from '../../../admin/grpc/hpack.ts'
import { RequestHead } from '../../../admin/grpc/request-head.ts'
import { grpcStatus } from '../../../admin/grpc/server.ts'
import { BodyMemory, Http2Stream } from '../../../admin/grpc/stream.ts'
import { ask, call, framed, headers, serveGrpc } from '../../support/grpc-server.ts'
import { h2specAbsent, h2specFailures } from '../../support/h2spec.ts'
import { until } from '../../support/until.ts'

const frame = (type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)) => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}
const preface = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)])
const request = encodeHeaders({
  ...{ ':method': 'POST', ':scheme': 'http', ':path': '/echo' },
  'content-type': 'application/grpc',
})

/** The code of the GOAWAY frame that a connection ends with; null: it ends without. */
async function goAwayOf(socket: Socket): Promise<number | null> {
  const parts: Buffer[] = []
  socket.on('data', (chunk: Buffer) => parts.push(chunk))
  await once(socket, 'close')
  const bytes = Buffer.concat(parts)
  for (let index = 0; index + 9 <= bytes.length; index += 9 + bytes.readUIntBE(index, 3))
    if (bytes[index + 3] === 7) return bytes.readUInt32BE(index + 13)
  return null
}

t.test('bytes may arrive one by one', async (t) => {
  const { socket } = await serveGrpc(t)
  const client = await socket()
  let received = Buffer.alloc(0)
  client.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
  })
  const message = framed(Buffer.from('in pieces'))
  for (const byte of Buffer.concat([preface, frame(1, 4, 1, request), frame(0, 1, 1, message)])) {
    client.write(Buffer.of(byte))
    await new Promise((resolve) => setImmediate(resolve))
  }
  await until(() => received.includes('in pieces') && received.includes('grpc-status'))
  t.pass()
})

for (const [title, frames, code] of [
  ['headers without an end', Array.from({ length: 40 }, () => frame(9, 0, 1, Buffer.of(0x82))), 11],
  ['headers of more than 32 KiB', [1, 2, 3].map(() => frame(9, 0, 1, Buffer.alloc(16_000))), 11],
] as const)
  t.test(`${title} end their connection (CVE-2024-27316)`, async (t) => {
    const { socket } = await serveGrpc(t)
    const client = await socket()
    const ended = goAwayOf(client)
    client.write(Buffer.concat([preface, frame(1, 0, 1, request), ...frames]))
    t.equal(await ended, code)
  })

t.test('calls that are opened and reset without end end their connection', async (t) => {
  const { socket } = await serveGrpc(t)
  const client = await socket()
  const ended = goAwayOf(client)
  client.write(preface)
  for (let stream = 1; stream < 6001 && !client.destroyed; stream += 2)
    client.write(
      Buffer.concat([frame(1, 4, stream, request), frame(3, 0, stream, Buffer.from([0, 0, 0, 8]))]),
    )
  t.equal(await ended, constants.NGHTTP2_ENHANCE_YOUR_CALM)
})

const number = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
const setting = Buffer.from([0, 3, 0, 0, 0, 100])
for (const [title, spare] of [
  ['PING (CVE-2019-9512)', frame(6, 0, 0, Buffer.alloc(8))],
  ['SETTINGS (CVE-2019-9515)', frame(4, 0, 0, setting)],
  ['empty DATA (CVE-2019-9518)', frame(0, 0, 1)],
  ['PRIORITY', frame(2, 0, 1, Buffer.from([0, 0, 0, 3, 16]))],
  ['WINDOW_UPDATE', frame(8, 0, 0, number(1))],
  ['RST_STREAM of streams that have ended', frame(3, 0, 1, number(8))],
  ['frames of an unknown type', frame(0x42, 0, 0)],
] as const)
  t.test(`a flood of ${title} ends its connection`, async (t) => {
    const { socket, session } = await serveGrpc(t)
    const client = await socket()
    const ended = goAwayOf(client)
    const flood = Buffer.concat(Array.from({ length: 100 }, () => spare))
    client.write(Buffer.concat([preface, frame(1, 4, 1, request)]))
    for (let count = 0; count < 100 && !client.destroyed; count++) client.write(flood)
    t.equal(await ended, constants.NGHTTP2_ENHANCE_YOUR_CALM)
    t.match(await call(session(), '/echo', 'on'), { grpc: 0 })
  })

t.test('what a caller sends after its connection ended is not read without end', async (t) => {
  const { socket, accepted } = await serveGrpc(t)
  const client = await socket()
  const flood = Buffer.alloc(16 * 1024 * 1024, frame(6, 0, 0, Buffer.alloc(8)))
  client.resume()
  client.write(Buffer.concat([preface, flood]))
  await new Promise((resolve) => client.once('close', resolve))
  const { bytesRead } = accepted[0]!
  t.ok(bytesRead < 1024 * 1024, `${bytesRead} bytes`)
})

t.test('a caller may send a hundred frames without content with each call', async (t) => {
  const { socket } = await serveGrpc(t)
  const client = await socket()
  let answered = 0
  client.on('data', (bytes: Buffer) => {
    answered += bytes.toString('latin1').split('grpc-status').length - 1
  })
  client.write(preface)
  const pings = Buffer.concat(Array.from({ length: 98 }, () => frame(6, 0, 0, Buffer.alloc(8))))
  for (let stream = 1; stream < 80; stream += 2) {
    const message = frame(0, 1, stream, framed(Buffer.from('a')))
    client.write(Buffer.concat([pings, frame(1, 4, stream, request), message]))
  }
  await until(() => answered === 40)
  t.pass('4,000 PINGs')
})

for (const [title, first, code] of [
  ['with a SETTINGS frame of 33 values', Buffer.concat(Array(33).fill(setting)), 11],
  ['with an acknowledgement', null, 1],
] as const)
  t.test(`a connection that begins ${title} ends`, async (t) => {
    const { socket } = await serveGrpc(t)
    const client = await socket()
    const ended = goAwayOf(client)
    const settings = first === null ? frame(4, 1, 0) : frame(4, 0, 0, first)
    client.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), settings]))
    t.equal(await ended, code)
  })

t.test('a caller that does not read is not read either, and nothing is lost', async (t) => {
  const { socket, accepted } = await serveGrpc(t)
  const client = await socket()
  client.pause()
  const calls = 4000
  const payload = Buffer.alloc(4000, 'p')
  client.write(Buffer.concat([preface, frame(8, 0, 0, number(2 ** 30))]))
  for (let count = 0; count < calls; count++) {
    const stream = 2 * count + 1
    client.write(
      Buffer.concat([frame(1, 4, stream, request), frame(0, 1, stream, framed(payload))]),
    )
  }
  await until(() => accepted[0]!.isPaused() && accepted[0]!.writableLength > 0)
  t.ok(accepted[0]!.writableLength < 512 * 1024, `${accepted[0]!.writableLength} bytes wait`)
  let received: Buffer = Buffer.alloc(0)
  let ended = 0
  client.on('data', (bytes: Buffer) => {
    received = received.length === 0 ? bytes : Buffer.concat([received, bytes])
    let offset = 0
    for (; offset + 9 <= received.length; ) {
      const length = received.readUIntBE(offset, 3)
      if (offset + 9 + length > received.length) break
      if (received[offset + 3] === 1 && (received[offset + 4]! & 1) === 1) ended++
      offset += 9 + length
    }
    received = received.subarray(offset)
  })
  client.resume()
  await until(() => ended === calls)
  t.pass('each call has its answer')
})

t.test(
  'calls whose messages are cut at each byte, between those of others, do not mix',
  async (t) => {
    const { socket } = await serveGrpc(t)
    const client = await socket()
    let received = Buffer.alloc(0)
    client.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
    })
    const messages = Array.from({ length: 60 }, (_, n) =>
      framed(Buffer.from(`<${n}>`.padEnd(40, 'x'))),
    )
    const frames = (write: (stream: number, message: Buffer, cut: number) => Buffer) =>
      messages.map((message, n) => write(2 * n + 1, message, n % message.length))
    client.write(
      Buffer.concat([
        preface,
        ...frames((stream) => frame(1, 4, stream, request)),
        ...frames((stream, message, cut) => frame(0, 0, stream, message.subarray(0, cut))),
        ...frames((stream, message, cut) =>
          // Padded by three bytes.
          frame(
            0,
            9,
            stream,
            Buffer.concat([Buffer.of(3), message.subarray(cut), Buffer.alloc(3)]),
          ),
        ).reverse(),
      ]),
    )
    await until(() => received.toString('latin1').split('grpc-status').length === 61)
    for (let index = 0; index < received.length; index += 9 + received.readUIntBE(index, 3)) {
      if (received[index + 3] !== 0) continue
      const stream = received.readUInt32BE(index + 5)
      const body = received.subarray(index + 9, index + 9 + received.readUIntBE(index, 3))
      t.ok(body.equals(messages[(stream - 1) / 2]!), `stream ${stream}`)
    }
  },
)

t.test('compressed calls at once are answered each with its own message', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  await once(client, 'remoteSettings')
  const texts = Array.from({ length: 80 }, (_, n) => `${n}-`.repeat(1 + n * 50))
  const more = { 'grpc-encoding': 'gzip' }
  const left = client.request(headers('/echo', more))
  left.on('error', () => {})
  const answers = texts.map((text) => ask(client, '/echo', framed(gzipSync(text), 1), more))
  left.end(framed(gzipSync('left'), 1))
  left.close(constants.NGHTTP2_CANCEL)
  t.same(
    (await Promise.all(answers)).map(({ message }) => String(message)),
    texts,
  )
  t.match(await ask(client, '/echo', framed(Buffer.alloc(0), 1), more), {
    grpc: grpcStatus.internal,
  })
  t.match(await ask(client, '/echo', framed(gzipSync('a'), 1)), { grpc: grpcStatus.internal })
})

t.test('a head with values that are too long ends its call alone', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  const reset = constants.NGHTTP2_PROTOCOL_ERROR
  const long = 'x'.repeat(300)
  t.match(await call(client, `/${long}`, ''), { status: 0, reset })
  const timed = ask(client, '/echo', framed(Buffer.from('a')), { 'grpc-timeout': long })
  t.match(await timed, { status: 0, reset })
  t.match(await ask(client, '/echo', framed(Buffer.from('a')), { other: long }), { grpc: 0 })
})

t.test('responses that a caller does not take share a memory that has a bound', async (t) => {
  const memory = new BodyMemory(100)
  const stream = () => new Http2Stream(1, new RequestHead(), 0, memory, 0)
  const [first, second] = [stream(), stream()]
  t.equal(first.holdResponse(60), true)
  t.equal(second.holdResponse(60), false)
  first.drop()
  t.equal(second.holdResponse(60), true)
})

t.test('calls beyond the limit of a connection are refused, and others go on', async (t) => {
  const { socket } = await serveGrpc(t, { maxStreams: 2 })
  const client = await socket()
  let received = Buffer.alloc(0)
  client.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
  })
  client.write(Buffer.concat([preface, ...[1, 3, 5].map((id) => frame(1, 4, id, request))]))
  const refused = frame(3, 0, 5, Buffer.from([0, 0, 0, constants.NGHTTP2_REFUSED_STREAM]))
  await until(() => received.includes(refused))
  client.write(frame(0, 1, 3, framed(Buffer.from('third'))))
  await until(() => received.includes('third'))
  t.pass()
})

t.test('random frames end at most their own connection', async (t) => {
  const { socket, session } = await serveGrpc(t)
  const payload = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes))
  const any = fc
    .tuple(fc.nat(11), fc.nat(255), fc.nat(8), fc.oneof(payload, fc.constant(request)))
    .map(([type, flags, stream, bytes]) => frame(type, flags, stream, bytes))
  await fc.assert(
    fc.asyncProperty(fc.array(any, { maxLength: 20 }), async (frames) => {
      const client = await socket()
      client.resume()
      client.end(Buffer.concat([preface, frame(1, 4, 1, request), ...frames]))
      await once(client, 'close')
    }),
    { numRuns: 200 },
  )
  t.match(await call(session(), '/echo', 'on'), { grpc: 0 })
})

t.test('h2spec finds no fault of the server', { skip: h2specAbsent }, async (t) => {
  const { port } = await serveGrpc(t)
  const known = new Set([
    // A call is answered without DATA where it has an error, which h2spec does not expect.
    '2: Sends a WINDOW_UPDATE frame on half-closed (remote) stream',
    '3: Sends a PRIORITY frame on half-closed (remote) stream',
    // Calls are answered as they arrive, so that there are never so many at once.
    '1: Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded',
  ])
  const failures = await h2specFailures(port, '/echo')
  t.same(
    failures.filter((title) => !known.has(title)),
    [],
  )
})
