/** Responses that arrive in one turn of the event loop are priced together: each caller gets its own, of any length. */
import type { Socket } from 'node:net'
import * as zlib from 'node:zlib'
import t from 'tap'
import type { Engine } from '../../../opd/types.ts'
import { testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'
import { callTo } from '../../support/transport.ts'
import { holdLoop, until } from '../../support/until.ts'

const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
const auction = (n: number) => JSON.stringify({ id: `auction-${n}`, imp: [{ id: '1' }] })
/** More than a batch has, and together more bytes than it holds. */
const callers = 36
const padding = (n: number) => 'x'.repeat(n % 5 === 4 ? 60_000 : n)
const bid = (n: number) => ({ id: `bid-${n}`, impid: '1', price: 2, adm: macro, crid: padding(n) })

async function world(onRequests: (sockets: Map<number, Socket>) => void) {
  const sockets = new Map<number, Socket>()
  const supplier = await rawSupplier((socket, request) => {
    sockets.set(Number(/auction-(\d+)/.exec(request)![1]), socket)
    onRequests(sockets)
  })
  const { engine } = testEngine({ integrations: [integration('acme')] })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s', maxInFlight: callers } },
    { engine },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { ...proxy, sockets }
}

function respond(sockets: Map<number, Socket>): void {
  for (const [n, socket] of sockets) {
    const body = JSON.stringify({ seatbid: [{ bid: [bid(n)] }] })
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  }
}

interface Answer {
  seatbid: { bid: ReturnType<typeof bid>[] }[]
}
const bidOf = (body: string) => (JSON.parse(body) as Answer).seatbid[0]!.bid[0]!

t.test('many responses at once', async (t) => {
  const { port } = await world((sockets) => {
    if (sockets.size === callers) respond(sockets)
  })
  const responses = await Promise.all(
    Array.from({ length: callers }, (_, n) => raw(port, post('/bid/acme', auction(n)))),
  )
  for (const [n, { body }] of responses.entries()) {
    const { id, crid, adm } = bidOf(body)
    t.strictSame([id, crid], [bid(n).id, padding(n)])
    t.match(adm, /^svc_opd=[\w-]{50,}$/)
  }
})

t.test(
  'responses that arrived in time are sent if the deadline passes while they wait for each other',
  async (t) => {
    const timeout = 300
    const count = 3
    const sockets = new Map<number, Socket>()
    const supplier = await rawSupplier((socket, request) => {
      sockets.set(Number(/auction-(\d+)/.exec(request)![1]), socket)
      if (sockets.size === count) respond(sockets)
    })
    const { engine } = testEngine({ integrations: [integration('acme')] })
    let held = false
    // Called at the head of a response, before the whole response waits for the others.
    const watched: Engine = {
      ...engine,
      responsesOf: (id) =>
        Object.create(engine.responsesOf(id), {
          reads: {
            get() {
              setImmediate(() => {
                // Once: every response has come when the loop continues.
                if (!held) holdLoop(timeout)
                held = true
              })
              return true
            },
          },
        }),
    }
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url], timeout: `${timeout}ms` } },
      { engine: watched },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const responses = await Promise.all(
      Array.from({ length: count }, (_, n) => raw(proxy.port, post('/bid/acme', auction(n)))),
    )
    t.strictSame(
      responses.map(({ body }) => bidOf(body).id),
      ['bid-0', 'bid-1', 'bid-2'],
    )
  },
)

t.test('a caller that has gone takes no response from the others', async (t) => {
  const { port, sockets } = await world(() => {})
  const gone = callTo(port)
  gone.write(post('/bid/acme', auction(0)))
  const others = [1, 2, 3].map((n) => raw(port, post('/bid/acme', auction(n))))
  await until(() => sockets.size === 4)
  respond(sockets)
  gone.destroy()
  const ids = await Promise.all(others.map(async (response) => bidOf((await response).body).id))
  t.strictSame(ids, ['bid-1', 'bid-2', 'bid-3'])
})

t.test('memory is given back when a response is priced at once', async (t) => {
  const macros = macro.replace('svc_opd=', '')
  const cases = {
    'a long request': {
      request: JSON.stringify({ id: 'auction-0', imp: [{ id: '1' }], pad: 'x'.repeat(70_000) }),
      body: Buffer.from(JSON.stringify({ seatbid: [{ bid: [bid(0)] }] })),
      coding: '',
    },
    'a gzip response that grows beyond 64 KiB': {
      request: auction(0),
      body: zlib.gzipSync(
        JSON.stringify({
          seatbid: [{ bid: [{ ...bid(0), adm: macro + macros.repeat(100), crid: padding(4) }] }],
        }),
      ),
      coding: 'Content-Encoding: gzip\r\n',
    },
  }
  for (const [name, { request, body, coding }] of Object.entries(cases)) {
    const supplier = await rawSupplier((socket) => {
      const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${coding}`
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`)
      socket.write(body)
    })
    const { engine } = testEngine({ integrations: [integration('acme')] })
    const proxy = await startProxy(
      { acme: { endpoints: [supplier.url], timeout: '20s' } },
      { engine },
    )
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    const held = () => sample(proxy.registry, 'bidweir_held_bytes')
    for (let index = 0; index < 3; index++) {
      const answer = await raw(proxy.port, post('/bid/acme', request))
      t.notSame(Buffer.from(answer.body, 'latin1'), body, `${name}: priced`)
      await until(
        async () => (await sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}')) === 0,
      )
    }
    t.equal(await held(), 0, name)
  }
})
