/** Upstream connections live 5 minutes at most, so that new nodes behind a name get traffic (CONTRACT 3). */
import { createServer } from 'node:net'
import t from 'tap'
import { createPool } from '../../proxy/upstream/pool.ts'
import { createResolver } from '../../proxy/upstream/resolver.ts'
import { OutgoingRequest } from '../../proxy/wire/outgoing-heads.ts'

const real = performance.now.bind(performance)
const clock = { ahead: 0 }
t.intercept(performance, 'now', { value: () => real() + clock.ahead })

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane}: a busy connection is used for 5 minutes, then another`, async (t) => {
    let accepted = 0
    const host = createServer((socket) => {
      accepted++
      socket.on('data', () => socket.write('HTTP/1.1 204 No Content\r\n\r\n')).on('error', () => {})
    })
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
    const { port } = host.address() as { port: number }
    const resolver = createResolver({ onError() {} })
    const connections = createPool(`http://127.0.0.1:${port}`, { resolver, lane })
    t.teardown(() => {
      connections.destroy()
      resolver.close()
      host.close()
    })
    const ask = () =>
      new Promise<number>((resolve, reject) => {
        const connection = connections.acquire(false, performance.now())
        let status = 0
        connection.dispatch(new OutgoingRequest('/', ['Host', 'a']), '', {
          head: ({ status: told }) => {
            status = told
          },
          data: () => true,
          end: () => setImmediate(resolve, status),
          fail: ({ error }) => reject(error),
        })
      })
    const began = performance.now()
    while (performance.now() - began < 299_000) {
      t.equal(await ask(), 204)
      clock.ahead += 2000
    }
    t.equal(accepted, 1)
    clock.ahead += 2000
    t.equal(await ask(), 204)
    t.equal(accepted, 2)
  })
