/** Upstream connections live 5 minutes at most, so that new nodes behind a name get traffic (CONTRACT 3). */
import { createHook } from 'node:async_hooks'
import { createServer } from 'node:net'
import t from 'tap'
import { ConnectionPool } from '../../../proxy/upstream/pool.ts'
import { createResolver } from '../../../proxy/upstream/resolver.ts'
import { OutgoingRequest, RequestStart } from '../../../proxy/wire/outgoing-heads.ts'
import { until } from '../../support/until.ts'

const real = performance.now.bind(performance)
const clock = { ahead: 0 }
t.intercept(performance, 'now', { value: () => real() + clock.ahead })

t.test(
  'endpoints at rest have no timers: thousands would be due in one turn of the event loop',
  async (t) => {
    const host = createServer((socket) => {
      socket
        .on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
        .on('error', () => {})
    })
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
    const { port } = host.address() as { port: number }
    const resolver = createResolver({ onError() {} })
    let timers = 0
    const hook = createHook({
      init(_id, type) {
        if (type === 'Timeout') timers++
      },
    }).enable()
    const pools = Array.from(
      { length: 100 },
      () => new ConnectionPool(`http://127.0.0.1:${port}`, { resolver, lane: 'fast' }),
    )
    hook.disable()
    t.teardown(() => {
      for (const pool of pools) pool.destroy()
      resolver.close()
      host.close()
    })
    t.ok(timers < 10, `${timers} timers`)

    const [pool] = pools as [(typeof pools)[number]]
    const use = () =>
      new Promise<void>((resolve, reject) => {
        pool
          .acquire(false, performance.now())
          .dispatch(new OutgoingRequest(new RequestStart('/', ['Host', 'a'])), '', {
            head() {},
            data: () => true,
            end: () => setImmediate(resolve),
            fail: ({ error }) => reject(error),
          })
      })
    for (let round = 0; round < 2; round++) {
      await use()
      t.equal(pool.idle, 1)
      clock.ahead += 5000
      await until(() => pool.idle === 0)
      t.equal(pool.open, 0, 'an idle connection is closed, in each round')
    }
  },
)

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
    const connections = new ConnectionPool(`http://127.0.0.1:${port}`, { resolver, lane })
    t.teardown(() => {
      connections.destroy()
      resolver.close()
      host.close()
    })
    const ask = () =>
      new Promise<number>((resolve, reject) => {
        const connection = connections.acquire(false, performance.now())
        let status = 0
        connection.dispatch(new OutgoingRequest(new RequestStart('/', ['Host', 'a'])), '', {
          head: ({ status: received }) => {
            status = received
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
