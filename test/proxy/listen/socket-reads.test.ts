/** What a caller sends before its response: the socket is paused, read again, and passed to the general lane. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { SocketReads } from '../../../proxy/wire/socket-reads.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, segment } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
/** Longer than what is read before a response, and than one read. */
const long = post('/bid/acme', `{"pad":"${'0123456789'.repeat(60_000)}"}`)
const short = post('/bid/acme', '{}')

t.test(
  'a long request behind one that waits arrives whole, and so do those after it',
  async (t) => {
    let waiting: Socket | null = null
    const supplier = await rawSupplier((socket) => {
      if (supplier.requests.length === 2) waiting = socket
      else socket.write(ok)
    })
    const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '60s' } })
    const caller = callTo(proxy.port)
    t.teardown(() => {
      caller.destroy()
      return Promise.all([proxy.close(), supplier.close()])
    })
    let read = ''
    caller.on('data', (chunk) => {
      read += chunk.toString('latin1')
    })
    const responses = () => read.split('HTTP/1.1 200').length - 1
    await segment(caller, short)
    await until(() => responses() === 1)
    await segment(caller, short)
    await until(() => waiting !== null)
    caller.write(long)
    // Read by the proxy before its response, as a request of another connection shows.
    const other = callTo(proxy.port)
    t.teardown(() => other.destroy())
    other.write(short)
    await until(() => supplier.requests.length === 3)
    waiting!.write(ok)
    await until(() => responses() === 3)
    caller.write(short)
    await until(() => responses() === 4)
    t.equal(supplier.requests.length, 5)
    t.ok(
      supplier.requests.some(
        ({ body }) =>
          long.subarray(-body.length).equals(Buffer.from(body)) && body.length > 600_000,
      ),
    )
  },
)

t.test('a caller that ends its side while it waits has left', async (t) => {
  const supplier = await rawSupplier(() => {})
  const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '60s' } })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const caller = callTo(proxy.port)
  let closed = false
  caller.on('close', () => {
    closed = true
  })
  await segment(caller, short)
  await until(() => supplier.requests.length === 1)
  caller.end()
  await until(() => closed && supplier.aborted === 1)
  t.equal(proxy.proxy.suppliers.get('acme')!.inFlight, 0)
})

/** The parts of a request of caller `n`, of the same length for each, with a body of its own. */
type Parts = (n: number) => { parts: string[]; bodies: string[] }
const bodyOf = (n: number) => `{"id":"${String(n).padStart(4, '0').repeat(600)}"}`
const cut = (text: string, ...cuts: number[]) =>
  [0, ...cuts].map((from, k) => text.slice(from, cuts[k]))
const plainOf = (n: number) => post('/bid/acme', bodyOf(n)).toString('latin1')

const framings: Record<string, Parts> = {
  'by its length': (n) => ({ parts: cut(plainOf(n), 700, 1400), bodies: [bodyOf(n)] }),
  // The general lane takes over after the first part.
  chunked: (n) => {
    const body = bodyOf(n)
    const head = 'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
    const text = `${head}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    return { parts: cut(text, 700, 1400), bodies: [body] }
  },
  // The next request arrives before the response.
  pipelined: (n) => ({
    parts: cut(plainOf(n) + plainOf(n + 1000), plainOf(n).length + 700),
    bodies: [bodyOf(n), bodyOf(n + 1000)],
  }),
}

for (const [name, partsOf] of Object.entries(framings))
  t.test(`requests that arrive in parts, those of all callers in turns: ${name}`, async (t) => {
    const supplier = await rawSupplier((socket) => socket.write(ok))
    const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '60s' } })
    const callers = Array.from({ length: 12 }, (_, n) => {
      const socket = callTo(proxy.port)
      const caller = { socket, read: '', ...partsOf(n) }
      socket.on('data', (chunk) => {
        caller.read += chunk.toString('latin1')
      })
      return caller
    })
    t.teardown(() => {
      for (const { socket } of callers) socket.destroy()
      return Promise.all([proxy.close(), supplier.close()])
    })
    for (let part = 0; part < callers[0]!.parts.length; part++)
      for (const { socket, parts } of callers) await segment(socket, parts[part]!)
    const isAnswered = ({ read, bodies }: (typeof callers)[number]) =>
      read.split('HTTP/1.1 200').length > bodies.length
    await until(() => callers.every(isAnswered))
    t.strictSame(
      supplier.requests.map(({ body }) => body).sort(),
      callers.flatMap(({ bodies }) => bodies).sort(),
    )
  })

for (const means of ['the shared buffer', 'chunks of the stream'])
  t.test(`a socket read by ${means}, paused, and passed on as a stream`, async (t) => {
    const seen = { read: '', stop: () => {}, resume: () => {}, isShared: false }
    const chunks: Buffer[] = []
    const server = createServer((socket) => {
      // A Node that has no such means for accepted sockets.
      if (means !== 'the shared buffer')
        Object.assign((socket as unknown as { _handle: object })._handle, {
          useUserBuffer: undefined,
        })
      const reads: SocketReads = new SocketReads(socket, (count, bytes) => {
        seen.isShared = bytes.length > count
        seen.read += bytes.toString('latin1', 0, count)
        reads.pause()
      })
      seen.resume = () => reads.resume()
      seen.stop = () => {
        reads.stop()
        socket.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
      }
    }).listen(0, '127.0.0.1')
    await until(() => server.listening)
    const caller = connect((server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => {
      caller.destroy()
      server.close()
    })
    await segment(caller, 'one')
    await until(() => seen.read === 'one')
    await segment(caller, 'two')
    t.equal(seen.read, 'one', 'it is paused')
    seen.resume()
    await until(() => seen.read === 'onetwo')
    t.equal(seen.isShared, means === 'the shared buffer')
    seen.stop()
    for (const text of ['three', 'four!', 'five!']) {
      const { length } = chunks
      await segment(caller, text)
      await until(() => chunks.length > length)
    }
    t.equal(Buffer.concat(chunks).toString(), 'threefour!five!', 'a chunk is not written over')
    t.equal(seen.read, 'onetwo')
  })
