/** Pipelined requests on one connection, malformed bytes after them, and the end of such connections. */
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { proxySchema, routeSchema } from '../../proxy/config.ts'
import { idleEngine, sample, startProxy } from '../support/proxy.ts'
import { post, raw } from '../support/raw.ts'
import { rawSupplier } from '../support/supplier.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const bid = post('/bid/acme', '{}')
/** The same request for node:http. */
const chunked =
  'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'
const kinds: Record<string, string | Buffer> = { plain: bid, chunked }

async function world(
  t: Test,
  handler: (socket: Socket, nth: number) => void,
  proxyOptions: object = {},
  reads = false,
) {
  let nth = 0
  const sockets = new Set<Socket>()
  const supplier = await rawSupplier((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    handler(socket, ++nth)
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '5s' } },
    { proxy: proxyOptions, engine: idleEngine({ readsResponses: () => reads }) },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { ...proxy, supplier, sockets }
}

const until = async (check: () => boolean) => {
  for (let turn = 0; turn < 500 && !check(); turn++) await pause(5)
  return check()
}

t.test('a caller that goes away with requests in line cancels what went upstream', async (t) => {
  const { port, sockets } = await world(t, () => {})
  const caller = connect({ port, host: '127.0.0.1', noDelay: true })
  for (let count = 0; count < 4; count++) {
    caller.write(bid)
    await pause(30)
  }
  t.ok(await until(() => sockets.size > 0), 'the first one is upstream')
  caller.destroy()
  t.ok(await until(() => sockets.size === 0), 'and cancelled')
})

t.test('what is no request is answered behind the answers before it, never into one', async (t) => {
  const { port } = await world(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    setTimeout(() => socket.write('5\r\nworld\r\n0\r\n\r\n'), 60)
  })
  for (const [name, request] of Object.entries(kinds)) {
    const { bytes, closed } = await raw(port, [request, 'GARBAGE\r\n\r\n'], () => false)
    t.match(bytes, /^HTTP\/1\.1 200 .*hello\r\n5\r\nworld\r\n0\r\n\r\nHTTP\/1\.1 400 /s, name)
    t.ok(closed, `${name}: closed`)
  }
})

t.test('a body that breaks off after its answer is not answered again', async (t) => {
  const { port } = await world(t, () => {}, { headTimeout: '300ms' })
  const unknown = 'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\n{}'
  t.equal((await raw(port, unknown, () => false)).bytes.split('HTTP/1.1 ').length - 1, 1)
  const cut = chunked.slice(0, -9).replace('/acme', '/none')
  const { bytes, closed } = await raw(port, cut, () => false)
  t.match(bytes, /^HTTP\/1\.1 404 /)
  t.notMatch(bytes, / 408 /)
  t.ok(closed)
})

t.test('a drain answers all requests in line and closes with the last', async (t) => {
  for (const [name, request] of Object.entries(kinds)) {
    const { port, proxy, sockets } = await world(t, (socket, nth) =>
      setTimeout(() => socket.write(ok.replace('ok', `#${nth}`)), 100),
    )
    const answers = raw(port, [request, request, request], () => false)
    await until(() => sockets.size > 0)
    await pause(20)
    proxy.drain()
    const drained = proxy.close()
    const { bytes, closed } = await answers
    t.same(
      bytes.match(/#\d|keep-alive|close/g),
      ['keep-alive', '#1', 'keep-alive', '#2', 'close', '#3'],
      name,
    )
    t.ok(closed)
    await drained
  }
})

t.test('a drain lets an answer out whole that its caller takes slowly', async (t) => {
  const length = 8_000_000
  for (const [name, request] of Object.entries(kinds)) {
    const { port, proxy } = await world(
      t,
      (socket) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`)
        socket.write(Buffer.alloc(length, 'x'))
      },
      { maxRewriteBytes: '16MiB' },
      true,
    )
    const caller = connect({ port, host: '127.0.0.1' }).pause()
    caller.write(request)
    let got = 0
    await until(() => [...proxy.suppliers.values()][0]!.metrics.requests[0]! > 0)
    proxy.drain()
    const drained = proxy.close()
    await pause(150)
    caller.on('data', (chunk) => {
      got += chunk.length
    })
    caller.resume()
    t.ok(await until(() => got > length), name)
    caller.destroy()
    await drained
  }
})

t.test('half a head holds a drain no longer than any other connection', async (t) => {
  const { port, proxy } = await world(t, () => {}, { headTimeout: '200ms' })
  // It neither reads nor closes.
  const caller = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).pause()
  caller.on('error', () => {})
  caller.write('POST /bid/ac')
  await pause(50)
  proxy.drain()
  await proxy.close()
  caller.destroy()
})

t.test('no Host line and CONNECT are told why', async (t) => {
  const { port } = await world(t, () => {})
  const homeless = await raw(port, 'POST /bid/acme HTTP/1.1\r\nContent-Length: 0\r\n\r\n')
  t.equal(homeless.headers['content-type'], 'application/problem+json')
  t.match(JSON.parse(homeless.body), { status: 400, code: 'host' })
  const tunnel = await raw(port, 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(tunnel, { status: 405, headers: { allow: 'POST' } })
})

t.test('an answer in many small pieces waits for its caller with one listener', async (t) => {
  const warnings: string[] = []
  const warned = (warning: Error) => void warnings.push(warning.name)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const pieces = '1\r\nq\r\n'.repeat(500_000)
  const { port } = await world(t, (socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}0\r\n\r\n`),
  )
  for (const request of Object.values(kinds)) {
    const caller = connect({ port, host: '127.0.0.1' }).pause()
    caller.on('error', () => {})
    caller.write(request)
    await pause(300)
    caller.destroy()
  }
  t.same(warnings, [])
})

t.test('a caller that takes no answers gets no more of them, and is closed', async (t) => {
  const body = 'x'.repeat(60_000)
  const { port, supplier, registry } = await world(
    t,
    (socket) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n${body}`),
    { headTimeout: '300ms' },
  )
  for (const [name, request] of Object.entries(kinds)) {
    const caller = connect({ port, host: '127.0.0.1', noDelay: true }).pause()
    caller.on('error', () => {})
    let answered = true
    while (answered) {
      const { length } = supplier.requests
      caller.write(request)
      for (let turn = 0; turn < 100 && supplier.requests.length === length; turn++) await pause(2)
      answered = supplier.requests.length > length
      // As one that pipelines nothing: by then it has been answered.
      await pause(3)
      if (supplier.requests.length > 1000) break
    }
    t.ok(supplier.requests.length < 1000, name)
    supplier.requests.length = 0
    while ((await sample(registry, 'bidweir_connections')) > 0) await pause(10)
    t.pass(`${name}: closed`)
    caller.destroy()
  }
})

t.test('a body that a reload makes too large is 413, and its connection goes on', async (t) => {
  const { port, proxy, supplier } = await world(t, (socket) => socket.write(ok))
  const caller = connect({ port, host: '127.0.0.1', noDelay: true })
  let text = ''
  caller.on('data', (chunk) => {
    text += chunk
  })
  caller.write('POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n')
  caller.write('x'.repeat(40))
  await until(() => [...proxy.suppliers.values()][0]!.inFlight > 0)
  proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0', maxRequestBytes: 60 }))
  caller.write(`${'x'.repeat(60)}${bid.toString()}`)
  t.ok(await until(() => text.endsWith('ok')))
  t.match(text, /^HTTP\/1\.1 413 [\s\S]*HTTP\/1\.1 200 OK/)
  t.equal(supplier.requests.length, 1)
  caller.destroy()
})

t.test('an upgrade that comes in a drain does not hold it', async (t) => {
  const { port, proxy, supplier } = await world(t, (socket) =>
    setTimeout(() => socket.write(ok), 100),
  )
  const passThrough = new URL(supplier.url).origin
  proxy.setRoute({ ...routeSchema.parse({ endpoints: [supplier.url], passThrough }), id: 'acme' })
  const upgrade =
    'GET /pass/acme/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const caller = connect({ port, host: '127.0.0.1', noDelay: true })
  let text = ''
  caller
    .on('error', () => {})
    .on('data', (chunk) => {
      text += chunk
    })
  const closed = new Promise((resolve) => caller.once('close', resolve))
  caller.write(chunked)
  await until(() => supplier.requests.length === 1)
  const drained = proxy.close()
  caller.write(upgrade)
  await drained
  await closed
  t.match(text, /^HTTP\/1\.1 200 [\s\S]*okHTTP\/1\.1 200 /, 'the offer is ignored behind a bid')
})
