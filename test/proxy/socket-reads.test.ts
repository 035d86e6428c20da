/** What a caller sends before its response: the socket is paused, read again, and passed to the general lane. */
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { startProxy } from '../support/proxy.ts'
import { post, segment } from '../support/raw.ts'
import { rawSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'

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
    const caller = connect({ port: proxy.port, host: '127.0.0.1', noDelay: true })
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
    const other = connect({ port: proxy.port, host: '127.0.0.1' })
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
  const caller = connect({ port: proxy.port, host: '127.0.0.1', noDelay: true })
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
