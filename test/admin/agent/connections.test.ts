/** Connections of the agent listener: TLS, client certificates, foreign bytes, and the end of the service. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { join } from 'node:path'
import { credentials, status } from '@grpc/grpc-js'
import t from 'tap'
import { AgentClient, callOf } from '../../support/agent.ts'
import { certificate } from '../../support/certificate.ts'
import { newFolder } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'

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
  const clientWith = (own: { cert: string; key: string } | null) => {
    const channel =
      own === null
        ? credentials.createSsl(root)
        : credentials.createSsl(root, Buffer.from(own.key), Buffer.from(own.cert))
    const client = new AgentClient(node.bidweir.agentPort!, channel)
    t.teardown(() => client.close())
    return client
  }
  t.equal((await clientWith(pair).call(callOf())).mutations.length, 1)
  await t.rejects(clientWith(null).call(callOf()), { code: status.UNAVAILABLE })
  await t.rejects(clientWith(stranger).call(callOf()), { code: status.UNAVAILABLE })
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
