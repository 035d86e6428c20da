/** Pipelined requests on one connection, malformed bytes after them, and the end of such connections. */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { outcomes } from '../../../proxy/metrics.ts'
import { idleEngine, sample, startProxy } from '../../support/proxy.ts'
import { post, raw, segment } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { timePasses, until } from '../../support/until.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const bid = post('/bid/acme', '{}')
/** The same request for node:http. */
const chunked =
  'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'
/** A client of a proxy sends the absolute form: the general lane serves it, and its connection from then on. */
const absolute = 'POST http://a/bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}'
const kinds: Record<string, string | Buffer> = { plain: bid, chunked, absolute }

async function world(
  t: Test,
  handler: (socket: Socket, nth: number) => void,
  proxyOptions: object = {},
  reads = false,
) {
  let nth = 0
  const sockets = new Set<Socket>()
  const supplier = await rawSupplier((socket) => {
    if (!sockets.has(socket)) socket.once('close', () => sockets.delete(socket))
    sockets.add(socket)
    handler(socket, ++nth)
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    { proxy: proxyOptions, engine: idleEngine({ readsResponses: () => reads }) },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { ...proxy, supplier, sockets }
}

t.test('a caller that goes away with requests in line cancels what went upstream', async (t) => {
  const { port, sockets, supplier } = await world(t, () => {})
  const caller = callTo(port)
  for (let count = 0; count < 4; count++) await segment(caller, bid)
  await until(() => sockets.size > 0)
  t.equal(sockets.size, 1, 'the first one is upstream')
  caller.destroy()
  await until(() => sockets.size === 0)
  t.equal(supplier.requests.length, 1, 'and cancelled')
})

t.test('what is no request is answered behind the answers before it, never into one', async (t) => {
  let rest = () => {}
  const { port } = await world(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    rest = () => void socket.write('5\r\nworld\r\n0\r\n\r\n')
  })
  for (const [name, request] of Object.entries(kinds)) {
    const { bytes, closed } = await raw(port, [request, 'GARBAGE\r\n\r\n'], (text) => {
      if (text.endsWith('hello\r\n')) setImmediate(rest)
      return false
    })
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
    const drains = Promise.withResolvers<void>()
    const { port, proxy, sockets } = await world(t, async (socket, nth) => {
      await drains.promise
      socket.write(ok.replace('ok', `#${nth}`))
    })
    const answers = raw(port, `${request}${request}${request}`, () => false)
    await until(() => sockets.size > 0)
    proxy.drain()
    const drained = proxy.close()
    drains.resolve()
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
    const caller = callTo(port).pause()
    caller.write(request)
    let got = 0
    await until(() => [...proxy.suppliers.values()][0]!.metrics.requests[0]! > 0)
    proxy.drain()
    const drained = proxy.close()
    await timePasses(150, 'the drain must not end while the caller takes nothing')
    caller.on('data', (chunk) => {
      got += chunk.length
    })
    caller.resume()
    await until(() => got > length)
    t.ok(got > length, name)
    caller.destroy()
    await drained
  }
})

t.test('half a head holds a drain no longer than any other connection', async (t) => {
  const { port, proxy, registry } = await world(t, () => {}, { headTimeout: '200ms' })
  const connections = () => sample(registry, 'bidweir_connections')
  // It neither reads nor closes.
  const caller = callTo(port, { allowHalfOpen: true }).pause()
  caller.on('error', () => {})
  await until(async () => (await connections()) === 1)
  await segment(caller, 'POST /bid/ac')
  proxy.drain()
  await t.resolves(proxy.close())
  caller.destroy()
})

t.test('an answer in many small pieces waits for its caller with one listener', async (t) => {
  const warnings: string[] = []
  const warned = (warning: Error) => void warnings.push(warning.name)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const pieces = '1\r\nq\r\n'.repeat(2_000_000)
  const { port, proxy, sockets } = await world(t, (socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}0\r\n\r\n`),
  )
  const { requests } = [...proxy.suppliers.values()][0]!.metrics
  const overload = outcomes.indexOf('overload')
  for (const [name, request] of Object.entries(kinds)) {
    const caller = callTo(port).pause()
    caller.write(request)
    let refused = requests[overload]!
    await until(() => {
      // A busy machine may be late for so long that the request is refused.
      if (requests[overload]! > refused) caller.write(request)
      refused = requests[overload]!
      return sockets.size > 0
    })
    // More than the buffers of the sockets hold: it stays in the supplier.
    await timePasses(300, 'a proxy that adds a listener for each piece has warned by then')
    t.ok(
      [...sockets].some(({ writableLength }) => writableLength > 0),
      `${name}: it waits`,
    )
    caller.destroy()
    await until(() => sockets.size === 0)
  }
  t.same(warnings, [])
})

t.test('a caller that takes no answers gets no more of them, and is closed', async (t) => {
  const body = 'x'.repeat(60_000)
  const { port, proxy, registry } = await world(
    t,
    (socket) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n${body}`),
    { headTimeout: '300ms' },
  )
  const route = [...proxy.suppliers.values()][0]!
  const connections = () => sample(registry, 'bidweir_connections')
  for (const [name, request] of Object.entries(kinds)) {
    const caller = callTo(port).pause()
    caller.on('error', () => {})
    await until(async () => (await connections()) === 1)
    const before = route.metrics.total
    let sent = 0
    const answered = () => route.metrics.total - before >= sent && route.inFlight === 0
    // One at a time, as a caller that pipelines nothing.
    while ((await connections()) === 1 && sent < 1000) {
      caller.write(request)
      sent++
      await until(async () => answered() || (await connections()) === 0, { what: name })
    }
    t.ok(sent < 1000, name)
    t.equal(await connections(), 0, `${name}: closed`)
    caller.destroy()
  }
})

t.test('a body that a reload makes too large is 413, and its connection goes on', async (t) => {
  const { port, proxy, supplier } = await world(t, (socket) => socket.write(ok))
  const caller = callTo(port)
  let text = ''
  caller.on('data', (chunk) => {
    text += chunk
  })
  caller.write('POST /bid/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n')
  caller.write('x'.repeat(40))
  await until(() => [...proxy.suppliers.values()][0]!.inFlight > 0)
  proxy.configure(proxySchema.parse({ listen: '127.0.0.1:0', maxRequestBytes: 60 }))
  caller.write(`${'x'.repeat(60)}${bid.toString()}`)
  await until(() => text.endsWith('ok'))
  t.match(text, /^HTTP\/1\.1 413 [\s\S]*HTTP\/1\.1 200 OK/)
  t.equal(supplier.requests.length, 1)
  caller.destroy()
})

t.test('an upgrade that comes in a drain does not hold it', async (t) => {
  let answer = () => {}
  const { port, proxy, supplier } = await world(t, (socket, nth) => {
    if (nth > 1) socket.write(ok)
    else answer = () => void socket.write(ok)
  })
  const passThrough = new URL(supplier.url).origin
  proxy.setRoute({ ...routeSchema.parse({ endpoints: [supplier.url], passThrough }), id: 'acme' })
  const upgrade =
    'GET /pass/acme/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const caller = callTo(port)
  let text = ''
  caller
    .on('error', () => {})
    .on('data', (chunk) => {
      text += chunk
    })
  const closed = new Promise((resolve) => caller.once('close', resolve))
  caller.write(absolute)
  await until(() => supplier.requests.length === 1)
  const drained = proxy.close()
  await segment(caller, upgrade)
  answer()
  await drained
  await closed
  t.match(text, /^HTTP\/1\.1 200 [\s\S]*okHTTP\/1\.1 200 /, 'the offer is ignored behind a bid')
})
