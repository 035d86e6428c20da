/** One connection to an endpoint, request by request. */
import t from 'tap'
import { createConnections } from '../../proxy/upstream/connections.ts'
import { createResolver } from '../../proxy/upstream/resolver.ts'
import { answerText, rawSupplier } from '../support/supplier.ts'

t.test('an answer that its caller takes slowly does not hold up the next request', async (t) => {
  const supplier = await rawSupplier((socket) => socket.write(answerText('200 OK', 'body')))
  const resolver = createResolver({ onError: () => {} })
  const connections = createConnections(new URL(supplier.url).origin, { resolver, lane: 'fast' })
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
        .take(false)
        .dispatch('/', ['Host', 'a', 'Content-Length', '0'], Buffer.alloc(0), sink)
    })
  t.equal(await ask(false), 'body')
  t.equal(connections.idle, 1)
  t.equal(await ask(true), 'body')
  t.equal(supplier.connections, 1)
})
