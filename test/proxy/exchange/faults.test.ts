import type { Socket } from 'node:net'
import t from 'tap'
import { idleEngine, sample, startProxy } from '../../support/proxy.ts'
import { keptOpen, post, raw } from '../../support/raw.ts'
import { outcome, readsAll, type Script, scripted } from '../../support/scripted-supplier.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'
import { reset } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const faults: [string, Script, string][] = [
  ['a reset before the answer', (socket) => reset(socket), 'upstream_error'],
  ['a close before the answer', (socket) => socket.end(), 'upstream_error'],
  ['garbage', (socket) => socket.write('\x16\x03\x01 what?\r\n\r\n'), 'upstream_error'],
  [
    'two Content-Lengths',
    (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx'),
    'upstream_error',
  ],
  ['half a head', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-'), 'upstream_error'],
  [
    'a body shorter than its length',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}'),
    'upstream_error',
  ],
  ['silence', () => {}, 'timeout'],
  [
    'a head, then silence',
    (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{'),
    'timeout',
  ],
]

for (const [title, script, reason] of faults) {
  const timeout = reason === 'timeout' ? { timeout: '400ms' } : {}
  t.test(`${title} is a no-bid, ${reason}`, async (t) => {
    const { proxy, supplier } = await scripted(t, script, timeout)
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.equal(answer.status, 204)
    t.equal(answer.headers['x-bidweir-reason'], reason)
    t.equal(await outcome(proxy, reason), 1)
    t.equal(supplier.requests.length, 1, 'a fresh connection is never replayed')
    t.equal(await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}'), 0)
    t.equal(await sample(proxy.registry, 'bidweir_held_bytes'), 0)
  })

  t.test(`${title} is ${reason} as a status where the supplier wants that`, async (t) => {
    const { proxy } = await scripted(t, script, { ...timeout, onFailure: 'status' })
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.equal(answer.status, reason === 'timeout' ? 504 : 502)
    t.equal(answer.headers['x-bidweir-reason'], reason)
  })
}

t.test(
  'a chunked answer that drips past the deadline is a no-bid where it is read whole',
  async (t) => {
    const drip: Script = (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      const timer = setInterval(() => socket.write('1\r\n{\r\n'), 5)
      socket.once('close', () => clearInterval(timer))
    }
    const { proxy } = await scripted(t, drip, { timeout: '100ms' }, readsAll)
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.equal(answer.status, 204)
    t.equal(answer.headers['x-bidweir-reason'], 'timeout')
  },
)

t.test(
  'a streamed answer that breaks ends as a closed connection, never as a whole answer',
  async (t) => {
    let breakOff = () => {}
    const { proxy } = await scripted(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n')
      breakOff = () => reset(socket)
    })
    const answer = await raw(proxy.port, post('/bid/acme', '{}'), (text) => {
      if (text.endsWith('first\r\n')) breakOff()
      return false
    })
    t.ok(answer.closed)
    t.notMatch(answer.bytes, /\r\n0\r\n\r\n$/)
    t.equal(await outcome(proxy, 'upstream_error'), 1)
  },
)

t.test('a reused connection that closed is replaced once, unseen by the caller', async (t) => {
  // Each connection answers once and closes without a word at the second request.
  const { proxy, supplier } = await scripted(t, (socket, _request, nth) => {
    if (nth === 1) socket.write(answerText('200 OK', '{}'))
    else reset(socket)
  })
  t.equal((await raw(proxy.port, post('/bid/acme', '1'))).status, 200)
  t.equal((await raw(proxy.port, post('/bid/acme', '2'))).status, 200)
  t.same(
    supplier.requests.map((request) => request.body),
    ['1', '2', '2'],
  )
  t.equal(await sample(proxy.registry, 'bidweir_replays_total{ssp="acme"}'), 1)
})

t.test(
  'a connection that closes in the turn of a request is replaced, whatever it served',
  async (t) => {
    let idle: Socket | null = null
    const { proxy, supplier } = await scripted(t, (socket) => {
      idle = socket
      socket.write(answerText('200 OK', '{}'))
    })
    const caller = keptOpen(proxy.port)
    t.teardown(() => caller.end())
    t.equal((await caller.ask(post('/bid/acme', '1'))).status, 200)
    // Both are in the kernel before the proxy reads either.
    const second = caller.ask(post('/bid/acme', '2'))
    idle!.destroy()
    t.equal((await second).status, 200)
    t.same(
      supplier.requests.map((request) => request.body),
      ['1', '2'],
    )
  },
)

t.test('a reused connection that broke after a byte of answer is not replayed', async (t) => {
  const { proxy, supplier } = await scripted(t, (socket, _request, nth) => {
    if (nth === 1) socket.write(answerText('200 OK', '{}'))
    else socket.write('H', () => reset(socket))
  })
  await raw(proxy.port, post('/bid/acme', '1'))
  const answer = await raw(proxy.port, post('/bid/acme', '2'))
  t.equal(answer.headers['x-bidweir-reason'], 'upstream_error')
  t.equal(supplier.requests.length, 2)
})

t.test('a request that never reached the wire goes to the other endpoint', async (t) => {
  const dead = await rawSupplier(() => {})
  await dead.close()
  const alive = await rawSupplier((socket) => socket.write(answerText('200 OK', '{}')))
  const proxy = await startProxy({ acme: { endpoints: [dead.url, alive.url] } })
  t.teardown(() => Promise.all([proxy.close(), alive.close()]))
  for (let n = 0; n < 30; n++) t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 200)
  const up = await sample(proxy.registry, `bidweir_endpoint_up{ssp="acme",endpoint="${dead.url}"}`)
  t.equal(up, 0, 'and the one that is down is ejected')
})

t.test('the last endpoint is never ejected', async (t) => {
  const { proxy, supplier } = await scripted(t, (socket) => socket.write(answerText('500 No', '')))
  for (let n = 0; n < 12; n++) {
    const answer = await raw(proxy.port, post('/bid/acme', '{}'))
    t.equal(answer.status, 500, 'an answer of any status is passed on as it is')
  }
  t.equal(supplier.requests.length, 12)
})

t.test('an endpoint that is silent for callers with a tmax of their own is ejected', async (t) => {
  const silent = await rawSupplier(() => {})
  const good = await rawSupplier((socket) => socket.write(answerText('200 OK', '{}')))
  const route = { endpoints: [silent.url, good.url], timeout: '500ms', tmaxMargin: '10ms' }
  const proxy = await startProxy({ acme: route })
  t.teardown(() => Promise.all([proxy.close(), silent.close(), good.close()]))
  const [dead, alive] = proxy.proxy.suppliers.get('acme')!.endpoints.all
  await until(async () => {
    await Promise.all(
      Array.from({ length: 4 }, () => raw(proxy.port, post('/bid/acme', '{"tmax":400}'))),
    )
    return dead!.ejections > 0
  })
  t.equal(alive!.ejections, 0)
})

t.test('an answer larger than maxRewriteBytes streams through untouched', async (t) => {
  const untouched: string[] = []
  const big = 'x'.repeat(300_000)
  const supplier = await rawSupplier((socket) => socket.write(answerText('200 OK', big)))
  const engine = idleEngine({
    ...readsAll,
    countUnmodified: (_ssp, reason) => void untouched.push(reason),
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    { engine, proxy: { maxRewriteBytes: '64KiB' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const answer = await raw(proxy.port, post('/bid/acme', '{}'))
  t.equal(answer.body, big)
  t.same(untouched, ['too_large'])
})

t.test('a reason phrase cannot add fields to the answer, nor end the process', async (t) => {
  // U+010D U+010A: cut to a byte each, CR LF.
  const split = Buffer.from('200 OK\u010d\u010aX-Evil: 1\u010d\u010a').toString('latin1')
  const bytes = (socket: Parameters<Script>[0]) =>
    socket.write(Buffer.from(answerText(split, '{}'), 'latin1'))
  const { proxy } = await scripted(t, bytes)
  for (const connection of ['keep-alive', 'close']) {
    const answer = await raw(proxy.port, post('/bid/acme', '{}', `Connection: ${connection}\r\n`))
    t.equal(answer.status, 200)
    t.equal(answer.headers['x-evil'], undefined)
    t.equal(answer.body, '{}')
  }
})

t.test('a bodiless status is whole with its head, whatever length it names', async (t) => {
  let asked = 0
  const { proxy } = await scripted(t, (socket) =>
    socket.write(
      ++asked === 1
        ? 'HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n'
        : 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello',
    ),
  )
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).status, 304)
  const answer = await raw(proxy.port, post('/bid/acme', '{}'))
  t.match(answer, { status: 204, body: '' })
  t.equal(answer.headers['x-bidweir-reason'], undefined)
})

t.test('a request without Host and a CONNECT get a problem document', async (t) => {
  const { proxy } = await scripted(t, () => {})
  const homeless = await raw(proxy.port, 'POST /bid/acme HTTP/1.1\r\nContent-Length: 0\r\n\r\n')
  t.equal(homeless.headers['content-type'], 'application/problem+json')
  t.match(JSON.parse(homeless.body), { status: 400, code: 'host' })
  const tunnel = await raw(proxy.port, 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(tunnel, { status: 405, headers: { allow: 'POST' } })
})
