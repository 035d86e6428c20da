/** One connection to an endpoint, request by request. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t from 'tap'
import { ConnectionPool } from '../../../proxy/upstream/pool.ts'
import { createResolver } from '../../../proxy/upstream/resolver.ts'
import { OutgoingRequest, RequestStart } from '../../../proxy/wire/outgoing-heads.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'

t.test('an answer that its caller takes slowly does not hold up the next request', async (t) => {
  const supplier = await rawSupplier((socket) => socket.write(answerText('200 OK', 'body')))
  const resolver = createResolver({ onError: () => {} })
  const connections = new ConnectionPool(new URL(supplier.url).origin, { resolver, lane: 'fast' })
  t.teardown(() => {
    connections.destroy()
    resolver.close()
    return supplier.close()
  })
  /** `takes`: whether the caller takes what it is given. */
  const ask = (takes: boolean) =>
    new Promise<string>((resolve) => {
      let body = ''
      const sink = {
        head() {},
        data(chunk: Buffer) {
          body += String(chunk)
          return takes
        },
        end: () => resolve(body),
        fail: ({ error }: { error: Error }) => resolve(error.message),
      }
      connections
        .acquire(false, performance.now())
        .dispatch(new OutgoingRequest(new RequestStart('/', ['Host', 'a'])), '', sink)
    })
  t.equal(await ask(false), 'body')
  t.equal(connections.idle, 1)
  t.equal(await ask(true), 'body')
  t.equal(supplier.connections, 1)
})

for (const lane of ['fast', 'general'] as const)
  t.test(
    `${lane}: an answer before the whole request was written ends its connection`,
    async (t) => {
      const sockets: Socket[] = []
      // It answers the first bytes, and reads no more.
      const supplier = createServer((socket) => {
        sockets.push(socket)
        socket.on('error', () => {})
        socket.once('data', () => {
          socket.pause()
          socket.write(answerText('200 OK', 'early'))
        })
      })
      await new Promise<void>((resolve) => supplier.listen(0, '127.0.0.1', resolve))
      const resolver = createResolver({ onError: () => {} })
      const { port } = supplier.address() as AddressInfo
      const connections = new ConnectionPool(`http://127.0.0.1:${port}`, { resolver, lane })
      t.teardown(() => {
        connections.destroy()
        resolver.close()
        for (const socket of sockets) socket.destroy()
        supplier.close()
      })
      const body = Buffer.alloc(20_000_000)
      const ask = () =>
        new Promise<string>((resolve) => {
          let got = ''
          connections
            .acquire(false, performance.now())
            .dispatch(new OutgoingRequest(new RequestStart('/', ['Host', 'a'])), body, {
              head() {},
              data: (chunk) => {
                got += String(chunk)
                return true
              },
              end: () => resolve(got),
              fail: ({ error }) => resolve(error.message),
            })
        })
      t.equal(await ask(), 'early')
      t.equal(connections.idle, 0)
      t.equal(await ask(), 'early')
      t.equal(sockets.length, 2)
    },
  )

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane}: a body that is text arrives byte for byte`, async (t) => {
    const every = String.fromCharCode(...Array.from({ length: 256 }, (_, index) => index))
    const supplier = await rawSupplier((socket, request) =>
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Length: 256\r\n\r\n${request.slice(-256)}`,
        'latin1',
      ),
    )
    const resolver = createResolver({ onError: () => {} })
    const connections = new ConnectionPool(new URL(supplier.url).origin, { resolver, lane })
    t.teardown(() => {
      connections.destroy()
      resolver.close()
      return supplier.close()
    })
    const echo = await new Promise<string>((resolve) => {
      let body = ''
      connections
        .acquire(false, performance.now())
        .dispatch(new OutgoingRequest(new RequestStart('/', ['Host', 'a'])), every, {
          head() {},
          data(chunk) {
            body += chunk.toString('latin1')
            return true
          },
          end: () => resolve(body),
          fail: ({ error }) => resolve(error.message),
        })
    })
    t.equal(echo, every)
  })
