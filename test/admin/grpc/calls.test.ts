/** Calls of the gRPC server below the agent listener, by Node's HTTP/2 client. */
import { once } from 'node:events'
import { constants } from 'node:http2'
import { deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { grpcStatus } from '../../../admin/grpc/server.ts'
import {
  answerOf,
  ask,
  call,
  framed,
  headers,
  maxMessage,
  serveGrpc,
} from '../../support/grpc-server.ts'
import { until } from '../../support/until.ts'

t.test('a call has one message and the status OK', async (t) => {
  const { session } = await serveGrpc(t)
  const answer = await call(session(), '/echo', 'hello')
  t.match(answer, { status: 200, grpc: 0, reset: 0 })
  t.equal(String(answer.message), 'hello')
})

t.test('calls of one connection are answered each with its own message', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  const texts = Array.from({ length: 1000 }, (_, n) => `${n}-`.repeat(1 + ((n * 7) % 300)))
  await once(client, 'remoteSettings')
  const answers = await Promise.all(texts.map((text) => call(client, '/echo', text)))
  t.same(
    answers.map(({ message }) => String(message)),
    texts,
  )
})

t.test('a message of many frames, and one of the largest size, arrive whole', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  for (const length of [16_384, 70_000, maxMessage]) {
    const message = Buffer.from(Array.from({ length }, (_, n) => n % 251))
    const answer = await call(client, '/echo', message)
    t.ok(answer.message.equals(message), `${length} bytes`)
  }
})

t.test('an answer waits for the windows of its caller', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session({ initialWindowSize: 1000 })
  const [large, small] = await Promise.all([
    call(client, '/large', '300000'),
    call(client, '/echo', 'small'),
  ])
  t.same([large.grpc, large.message.length], [0, 300_000])
  t.equal(String(small.message), 'small')
})

t.test('a caller without a dynamic table reads the answers', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session({ headerTableSize: 0 })
  await once(client, 'remoteSettings')
  for (let count = 0; count < 3; count++)
    t.match(await call(client, '/echo', 'hello'), { status: 200, grpc: 0 })
})

t.test('a message may be compressed by gzip or deflate', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  const message = Buffer.alloc(10_000, 'abc')
  const compressed = (bytes: Buffer, encoding: string) =>
    ask(client, '/echo', framed(bytes, 1), { 'grpc-encoding': encoding })
  t.ok((await compressed(gzipSync(message), 'gzip')).message.equals(message))
  t.ok((await compressed(deflateSync(message), 'deflate')).message.equals(message))
  t.match(await compressed(message, 'snappy'), { grpc: grpcStatus.unimplemented })
  t.match(await compressed(message, 'gzip'), { grpc: grpcStatus.internal })
  const bomb = gzipSync(Buffer.alloc(maxMessage + 1))
  t.match(await compressed(bomb, 'gzip'), { grpc: grpcStatus.resourceExhausted })
})

t.test('a message that is too large is refused before it arrived', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  const stream = client.request(headers('/echo'))
  const answered = answerOf(stream)
  stream.write(Buffer.alloc(maxMessage + 6))
  t.match(await answered, { grpc: grpcStatus.resourceExhausted, reset: 0 })
  t.match(await call(client, '/echo', 'on'), { grpc: 0 }, 'the connection goes on')
})

t.test('a request that is not a gRPC call is answered with an HTTP status', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  t.match(await call(client, '/none', ''), { status: 200, grpc: grpcStatus.unimplemented })
  t.match(await call(client, '/refused', ''), { status: 200, grpc: grpcStatus.invalidArgument })
  t.match(await ask(client, '/echo', Buffer.alloc(0)), { grpc: grpcStatus.internal })
  const two = Buffer.concat([framed(Buffer.from('a')), framed(Buffer.from('b'))])
  t.match(await ask(client, '/echo', two), { grpc: grpcStatus.internal })
  const json = { 'content-type': 'application/json' }
  t.match(await ask(client, '/echo', two, json), { status: 415, grpc: null })
  const get = (path: string) =>
    answerOf(client.request({ ':method': 'GET', ':path': path }, { endStream: true }))
  t.match(await get('/heartbeat'), { status: 200, grpc: null })
  t.match(await get('/other'), { status: 404 })
  t.match(await ask(client, '/echo', two, { 'content-length': '3' }), {
    reset: constants.NGHTTP2_PROTOCOL_ERROR,
  })
})

t.test('a method that does not exist is refused before its request is whole', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  const answered = answerOf(client.request(headers('/none')))
  t.match(await answered, { status: 200, grpc: grpcStatus.unimplemented, reset: 0 })
  t.match(await call(client, '/echo', 'on'), { grpc: 0 })
})

t.test('a caller says how long it waits', async (t) => {
  const { session } = await serveGrpc(t)
  const client = session()
  for (const [timeout, ms] of [
    ['2S', 2000],
    ['100m', 100],
    ['500u', 0.5],
    ['1H', 3_600_000],
    ['1', Number.POSITIVE_INFINITY],
    ['123456789S', Number.POSITIVE_INFINITY],
  ] as const) {
    const more = { 'grpc-timeout': timeout }
    const { message } = await ask(client, '/timeout', framed(Buffer.alloc(0)), more)
    t.equal(Number(String(message)), ms, timeout)
  }
})

t.test('a call with several messages lasts until its caller leaves', async (t) => {
  const { session, lasting } = await serveGrpc(t)
  const client = session()
  const stream = client.request(headers('/lasting'))
  let received = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
  })
  stream.on('error', () => {})
  stream.end(framed(Buffer.from('ab')))
  await until(() => received.length === 14)
  stream.close(constants.NGHTTP2_CANCEL)
  await until(() => lasting.length === 1)
  t.match(await call(client, '/echo', 'on'), { grpc: 0 })
})

t.test('a drain answers the calls that a caller had sent, and ends the connection', async (t) => {
  const { grpc, session } = await serveGrpc(t)
  const client = session()
  await once(client, 'remoteSettings')
  const stream = client.request(headers('/echo'))
  const answered = answerOf(stream)
  const message = framed(Buffer.from('late'))
  stream.write(message.subarray(0, 3))
  await new Promise<void>((resolve) => client.ping(() => resolve()))
  const [goaway, closed] = [once(client, 'goaway'), once(client, 'close')]
  grpc.drain()
  t.equal((await goaway)[0], constants.NGHTTP2_NO_ERROR)
  stream.end(message.subarray(3))
  t.match(await answered, { grpc: 0 })
  await closed
})

t.test('a connection ends with GOAWAY when it is old', async (t) => {
  const { session } = await serveGrpc(t, { maxConnectionAge: 1 })
  const client = session()
  const [code] = await once(client, 'goaway')
  t.equal(code, constants.NGHTTP2_NO_ERROR)
})

// Raw frames.
