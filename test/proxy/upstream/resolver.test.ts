/** Names of endpoints: resolved off the hot path, all addresses used, the last good ones kept. */
import { spawn } from 'node:child_process'
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { ConnectionPool } from '../../../proxy/upstream/pool.ts'
import { createResolver } from '../../../proxy/upstream/resolver.ts'
import { OutgoingRequest, RequestStart } from '../../../proxy/wire/outgoing-heads.ts'
import { until } from '../../support/until.ts'

const name = 'bids.example'
const lookups = (...addresses: string[]): LookupAddress[] =>
  addresses.map((address) => ({ address, family: 4 }))

function resolving(first: LookupAddress[] | Error) {
  const state = { answer: first, asked: 0, errors: [] as string[], clock: 0 }
  const resolver = createResolver({
    interval: 5,
    now: () => state.clock,
    onError: (hostname, error) => state.errors.push(`${hostname}: ${error.message}`),
    async resolve() {
      state.asked++
      if (state.answer instanceof Error) throw state.answer
      return state.answer
    },
  })
  const lookup = () =>
    new Promise<string>((resolve, reject) =>
      resolver.lookup(name, {}, (error, address) =>
        error === null ? resolve(address as string) : reject(error),
      ),
    )
  /** Until the name has been asked for so many times. */
  const asked = async (times: number) => {
    await until(() => state.asked >= times)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { resolver, state, lookup, asked }
}

t.test('every address is used in turn, from memory', async (t) => {
  const { resolver, state, lookup } = resolving(lookups('10.0.0.1', '10.0.0.2'))
  t.teardown(() => resolver.close())
  const used = [await lookup(), await lookup(), await lookup()]
  t.strictSame(used, ['10.0.0.1', '10.0.0.2', '10.0.0.1'])
  t.equal(state.asked, 1)
})

t.test('new addresses are taken without a request that waits for them', async (t) => {
  const { resolver, state, lookup, asked } = resolving(lookups('10.0.0.1'))
  t.teardown(() => resolver.close())
  for (const address of [name, '127.0.0.1']) resolver.watch(address)
  t.equal(await lookup(), '10.0.0.1')
  state.answer = lookups('10.0.0.9')
  await asked(state.asked + 1)
  t.equal(await lookup(), '10.0.0.9')
})

t.test(
  'the last addresses remain in use while no server answers, or one answers without addresses',
  async (t) => {
    const { resolver, state, lookup, asked } = resolving(lookups('10.0.0.1'))
    t.teardown(() => resolver.close())
    await lookup()
    for (const answer of [new Error('SERVFAIL'), []]) {
      state.answer = answer
      await asked(state.asked + 1)
      t.equal(await lookup(), '10.0.0.1')
    }
    t.match(state.errors[0], /^bids\.example: SERVFAIL$/)
  },
)

t.test('an address that failed is passed over for a while, never the only one', async (t) => {
  const { resolver, state, lookup } = resolving(lookups('10.0.0.1', '10.0.0.2'))
  t.teardown(() => resolver.close())
  await lookup()
  resolver.failed(name, '10.0.0.2')
  t.strictSame([await lookup(), await lookup()], ['10.0.0.1', '10.0.0.1'])
  resolver.failed(name, '10.0.0.1')
  t.match(await lookup(), /^10\.0\.0\./, 'all failed: one of them all the same')
  state.clock = 60_000
  t.strictSame(new Set([await lookup(), await lookup()]), new Set(['10.0.0.1', '10.0.0.2']))
})

t.test('a name that was never resolved is an error of that connection alone', async (t) => {
  const { resolver, lookup } = resolving(new Error('ENOTFOUND'))
  t.teardown(() => resolver.close())
  await t.rejects(lookup(), { code: 'ENOTFOUND' })
})

t.test('a name that does not exist is looked up once a second, an address never', async (t) => {
  const { resolver, state, lookup } = resolving(new Error('ENOTFOUND'))
  t.teardown(() => resolver.close())
  // Its own interval aside.
  resolver.close()
  for (let n = 0; n < 3; n++) await t.rejects(lookup())
  t.equal(state.asked, 1)
  state.clock = 1000
  await t.rejects(lookup())
  t.equal(state.asked, 2)
  for (const address of ['127.0.0.1', '[::1]', '::1']) resolver.watch(address)
  t.equal(state.asked, 2)
})

/** A host that is there and takes no connection: its process has blocked itself, and its backlog is full. */
async function deafHost(t: Test): Promise<number> {
  const script = `
    const server = require('node:net').createServer()
    server.listen(0, '127.0.0.2', 1, () => {
      require('node:fs').writeSync(1, server.address().port + '\\n')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(line.toString())
  // A backlog of 1 has room for two: they are connected all the same.
  let connected = 0
  for (let count = 0; count < 4; count++) {
    const socket = connect(port, '127.0.0.2', () => connected++).on('error', () => {})
    t.teardown(() => socket.destroy())
  }
  await until(() => connected >= 2)
  return port
}

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane}: an address that does not answer at all is passed over`, async (t) => {
    const port = await deafHost(t)
    const answering = createServer((socket) =>
      socket
        .on('data', () => socket.write('HTTP/1.1 204 No Content\r\n\r\n'))
        .on('error', () => {}),
    )
    await new Promise<void>((resolve) => answering.listen(port, '127.0.0.1', resolve))
    const resolver = createResolver({
      onError: () => {},
      resolve: async () => lookups('127.0.0.2', '127.0.0.1'),
    })
    const connections = new ConnectionPool(`http://bids.example:${port}`, { resolver, lane })
    t.teardown(() => {
      connections.destroy()
      resolver.close()
      answering.close()
    })
    resolver.watch('bids.example')
    /** What becomes of a request on a new connection. */
    const ask = (limit = 60_000) =>
      new Promise<string>((resolve) => {
        const connection = connections.acquire(true, performance.now())
        const late = setTimeout(() => {
          connection.abort()
          resolve('silence')
        }, limit)
        const settle = (how: string) => {
          clearTimeout(late)
          resolve(how)
        }
        connection.dispatch(
          new OutgoingRequest(new RequestStart('/', ['Host', 'bids.example'])),
          '',
          {
            head: ({ status }) => settle(String(status)),
            data: () => true,
            end() {},
            fail: ({ error }) => settle(error.message),
          },
        )
      })
    t.equal(await ask(100), 'silence')
    for (let count = 0; count < 4; count++) t.equal(await ask(), '204', 'the other one')
  })
