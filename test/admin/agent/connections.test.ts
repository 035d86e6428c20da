/** Connections of the agent listener: TLS, client certificates, foreign bytes, and the end of the service. */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { get } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { credentials, status } from '@grpc/grpc-js'
import t from 'tap'
import { AgentClient, callOf, encodeCall } from '../../support/agent.ts'
import { certificate } from '../../support/certificate.ts'
import { newFolder } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const supplier = await echoSupplier()
t.teardown(() => supplier.close())
const start = (agent: string) =>
  serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    more: `agent: {listen: "127.0.0.1:0", timeout: 60s${agent}}`,
  })

const [pair, stranger] = [certificate('localhost'), certificate('localhost')]
const skip = pair === null || stranger === null ? 'openssl is absent' : false
t.test('a clientCa without a readable certificate is a fault', { skip }, async (t) => {
  const folder = newFolder()
  for (const [name, text] of Object.entries({ ...pair, ca: 'nonsense' }))
    writeFileSync(join(folder, name), text)
  const file = (name: string) => `${name}: {file: ${join(folder, name.replace('clientCa', 'ca'))}}`
  const tls = ['cert', 'key', 'clientCa'].map(file).join(', ')
  await t.rejects(start(`, tls: {${tls}}`), /agent\.tls\.clientCa/)
})

t.test('with clientCa only a client with a certificate of it is served', { skip }, async (t) => {
  if (pair === null || stranger === null) return
  const folder = newFolder()
  for (const [name, text] of Object.entries(pair)) writeFileSync(join(folder, name), text)
  const [cert, key] = [join(folder, 'cert'), join(folder, 'key')]
  const node = await start(
    `, tls: {cert: {file: ${cert}}, key: {file: ${key}}, clientCa: {file: ${cert}}}`,
  )
  t.teardown(() => node.stop())
  const root = Buffer.from(pair.cert)
  const clientWith = (pair: { cert: string; key: string } | null) => {
    const channel =
      pair === null
        ? credentials.createSsl(root)
        : credentials.createSsl(root, Buffer.from(pair.key), Buffer.from(pair.cert))
    const client = new AgentClient(node.bidweir.agentPort!, channel)
    t.teardown(() => client.close())
    return client
  }
  t.equal((await clientWith(pair).call(callOf())).mutations.length, 1)
  await t.rejects(clientWith(null).call(callOf()), { code: status.UNAVAILABLE })
  await t.rejects(clientWith(stranger).call(callOf()), { code: status.UNAVAILABLE })
})

t.test('probes come to a port with TLS too, over HTTP/1.1 and HTTP/2', { skip }, async (t) => {
  if (pair === null) return
  const folder = newFolder()
  for (const [name, text] of Object.entries(pair)) writeFileSync(join(folder, name), text)
  const files = `cert: {file: ${join(folder, 'cert')}}, key: {file: ${join(folder, 'key')}}`
  const node = await start(`, tls: {${files}}`)
  t.teardown(() => node.stop())
  const url = `https://localhost:${node.bidweir.agentPort}`
  const probe = async (path: string) => {
    const request = get(`${url}${path}`, { ca: pair.cert, agent: false })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }
  t.same(
    [await probe('/heartbeat'), await probe('/healthcheck'), await probe('/x')],
    [200, 200, 404],
  )
  const session = connectHttp2(url, { ca: pair.cert })
  t.teardown(() => session.destroy())
  const stream = session.request({ ':path': '/healthcheck' })
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
  t.equal(headers[':status'], 200)
})

t.test('a stop ends connections with GOAWAY after the calls in flight', async (t) => {
  const node = await start('')
  const session = connectHttp2(`http://127.0.0.1:${node.bidweir.agentPort}`)
  session.on('error', () => {})
  await once(session, 'connect')
  const goaway = once(session, 'goaway')
  const closed = once(session, 'close')
  await node.stop()
  await goaway
  await closed
  t.pass('the session is closed')
})

t.test('bytes that are neither HTTP/2 nor HTTP/1.1 end their connection alone', async (t) => {
  const node = await start('')
  t.teardown(() => node.stop())
  const port = node.bidweir.agentPort!
  const client = new AgentClient(port)
  t.teardown(() => client.close())
  for (const bytes of [
    '\u0016\u0003\u0001garbage\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n',
    'P',
  ]) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.end(Buffer.from(bytes, 'latin1'))
    socket.resume()
    await once(socket, 'close')
  }
  t.equal((await client.call(callOf())).mutations.length, 1)
})

t.test('a caller that resets its connection in a call ends nothing else', async (t) => {
  const node = await start('')
  t.teardown(() => node.stop())
  const port = node.bidweir.agentPort!
  for (let count = 0; count < 20; count++) {
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    session.on('error', () => {})
    await once(session, 'connect')
    const stream = session.request({
      ':method': 'POST',
      ':path': '/com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint/GetMutations',
      'content-type': 'application/grpc',
    })
    stream.on('error', () => {})
    stream.write(Buffer.from([0, 0, 0, 1]))
    session.destroy()
  }
  const client = new AgentClient(port)
  t.teardown(() => client.close())
  t.equal((await client.call(callOf())).mutations.length, 1)
})

const path = '/com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint/GetMutations'
/** A message of gRPC with its head. */
const framed = (message: Buffer) => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
const post = (path: string, more: object = {}) => ({
  ...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' },
  ...more,
})
async function connected(port: number) {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  await once(session, 'remoteSettings')
  return session
}

t.test(
  'the health service says when a service begins to drain, to a client that watches',
  async (t) => {
    const node = await start('')
    const session = await connected(node.bidweir.agentPort!)
    const stream = session.request(post('/grpc.health.v1.Health/Watch'))
    const states: number[] = []
    stream.on('data', (bytes: Buffer) => states.push(bytes.at(-1)!))
    stream.on('error', () => {})
    stream.end(framed(Buffer.alloc(0)))
    await until(() => states.length > 0)
    await node.stop()
    // SERVING is 1, NOT_SERVING is 2.
    t.same(states, [1, 2])
  },
)

t.test('a call in flight when the service ends is answered', async (t) => {
  const node = await start('')
  const session = await connected(node.bidweir.agentPort!)
  const stream = session.request(post(path))
  const parts: Buffer[] = []
  stream.on('data', (bytes: Buffer) => parts.push(bytes))
  const message = framed(encodeCall(callOf()))
  const goaway = once(session, 'goaway')
  stream.write(message.subarray(0, 20))
  // The answer to the ping comes when the head of the call has arrived.
  await new Promise<void>((resolve) => session.ping(() => resolve()))
  const stopped = node.stop()
  await goaway
  stream.end(message.subarray(20))
  const [trailers] = (await once(stream, 'trailers')) as [Record<string, unknown>]
  t.equal(Number(trailers['grpc-status']), status.OK)
  t.ok(Buffer.concat(parts).includes('/seatbid/seat-1/bid/bid-1'))
  await stopped
})

t.test('no call is lost while the configuration is reloaded', async (t) => {
  const node = await start('')
  t.teardown(() => node.stop())
  const client = new AgentClient(node.bidweir.agentPort!)
  t.teardown(() => client.close())
  const file = join(node.folder, 'bidweir.yaml')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace('enabled: true', 'enabled: shadow'))
  let answer = await client.call(callOf())
  while (answer.mutations.length > 0) answer = await client.call(callOf())
  writeFileSync(file, text)
  while (answer.mutations.length === 0) answer = await client.call(callOf())
  t.pass('each call had an answer')
})

t.test('a connection has 256 calls at once, and there are 256 connections', async (t) => {
  const node = await start('')
  t.teardown(() => node.stop())
  const port = node.bidweir.agentPort!
  const session = await connected(port)
  t.teardown(() => session.destroy())
  t.equal(session.remoteSettings.maxConcurrentStreams, 256)
  const sockets = await Promise.all(
    Array.from({ length: 255 }, async () => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      await once(socket, 'connect')
      return socket
    }),
  )
  const last = connect(port, '127.0.0.1')
  last.on('error', () => {})
  last.resume()
  await once(last, 'close')
  for (const socket of sockets) socket.destroy()
  const client = new AgentClient(port)
  t.teardown(() => client.close())
  await until(async () => {
    const answer = await client.call(callOf()).catch(() => null)
    return answer !== null && answer.mutations.length === 1
  })
})

t.test(
  'a deadline of the caller that is too short gets no mutation, or ends the call',
  async (t) => {
    const node = await start('')
    t.teardown(() => node.stop())
    const session = await connected(node.bidweir.agentPort!)
    t.teardown(() => session.destroy())
    const stream = session.request(post(path, { 'grpc-timeout': '100u' }))
    const parts: Buffer[] = []
    stream.on('data', (bytes: Buffer) => parts.push(bytes))
    stream.on('error', () => {})
    stream.end(framed(encodeCall(callOf())))
    await once(stream, 'close')
    t.notOk(Buffer.concat(parts).includes('/seatbid/'))
  },
)
