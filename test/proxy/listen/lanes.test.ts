/**
 * The fast lane beside node:http and undici: the same bytes in, the same answer out, whatever the pieces they come in.
 */
import type { AddressInfo, Socket } from 'node:net'
import { Registry } from 'prom-client'
import { type Test, test } from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { createProxy } from '../../../proxy/proxy.ts'
import { idleEngine } from '../../support/proxy.ts'
import { post, type RawAnswer, raw, segment } from '../../support/raw.ts'
import { callTo, listenerTls, schemeOf, socketServer, transport } from '../../support/transport.ts'
import { until } from '../../support/until.ts'
import { answers } from './odd-responses.ts'

type Lane = 'fast' | 'general'

/** A supplier that answers every request with these bytes, cut at `cut` (negative: byte by byte), then may close. */
async function supplier(t: Test, answer: () => { bytes: Buffer; cut: number; closes: boolean }) {
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const server = socketServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    let read = ''
    socket.setNoDelay(true)
    socket.on('data', (chunk) => {
      read += chunk.toString('latin1')
      const end = read.indexOf('\r\n\r\n')
      if (end < 0) return
      const length = Number(/content-length: (\d+)/i.exec(read)?.[1] ?? 0)
      if (read.length < end + 4 + length) return
      requests.push(read.slice(0, end + 4 + length))
      read = read.slice(end + 4 + length)
      void send(socket, answer())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    requests,
    url: `${schemeOf()}://127.0.0.1:${(server.address() as AddressInfo).port}/openrtb`,
  }
}

async function send(
  socket: Socket,
  { bytes, cut, closes }: { bytes: Buffer; cut: number; closes: boolean },
): Promise<void> {
  const pieces =
    cut < 0
      ? [...bytes].map((byte) => Buffer.from([byte]))
      : [bytes.subarray(0, cut), bytes.subarray(cut)]
  for (const piece of pieces) {
    if (piece.length > 0) await segment(socket, piece)
  }
  if (closes) socket.end()
}

async function proxyOn(t: Test, lane: Lane, endpoint: string): Promise<number> {
  const route = { endpoints: [endpoint], timeout: '20s', onFailure: 'status' }
  const tls = listenerTls()
  const proxy = createProxy(
    proxySchema.parse({
      listen: '127.0.0.1:0',
      fastLane: lane === 'fast',
      ...(tls === null ? {} : { tls }),
    }),
    [{ ...routeSchema.parse(route), id: 'acme' }],
    {
      engine: idleEngine(),
      registry: new Registry(),
      log: { info() {}, warn() {}, error() {} },
    },
  )
  t.teardown(async () => {
    const closed = proxy.close()
    proxy.destroy()
    await closed
  })
  return (await proxy.listen()).port
}

/** What a caller sees, less what depends on the time and the order of our own headers. */
function seen({ status, headers, body }: RawAnswer) {
  const { date: _date, ...rest } = headers
  const chunked = headers['transfer-encoding'] === 'chunked'
  const ended = !chunked || body.endsWith('0\r\n\r\n')
  return { status, headers: rest, body: chunked ? unchunked(body) : body, ended }
}

/** A response that breaks off over TLS: what was not encrypted yet is lost, and how much that is depends on the time. */
const withoutBody = ({ status, headers }: ReturnType<typeof seen>) => ({ status, headers })

/** Where a chunk ends is not the answer's business. */
function unchunked(body: string): string {
  const size = Number.parseInt(body, 16)
  const from = body.indexOf('\r\n') + 2
  return size > 0 ? body.slice(from, from + size) + unchunked(body.slice(from + size + 2)) : ''
}

for (const [name, { answer, closes = false, keeps, breaks }] of Object.entries(answers))
  test(`both lanes: ${name}`, async (t) => {
    const bytes = Buffer.from(answer, 'latin1')
    let cut = 0
    const { url, requests } = await supplier(t, () => ({ bytes, cut, closes }))
    const request = post('/bid/acme', '{"id":"1"}')
    const compared = (response: RawAnswer) =>
      breaks === true && transport() === 'tls' ? withoutBody(seen(response)) : seen(response)
    const general = compared(await raw(await proxyOn(t, 'general', url), request))
    const port = await proxyOn(t, 'fast', url)
    for (cut of [0, -1, 1, Math.floor(bytes.length / 2), bytes.length - 1])
      t.strictSame(compared(await raw(port, request)), general, `cut at ${cut}`)
    t.equal(new Set(requests.slice(1)).size, 1, 'every request was the same')
    if (keeps !== undefined) t.ok(general.status < 502, 'an answer')
  })

const ok = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')

async function fastProxy(t: Test, answer: string) {
  const bytes = Buffer.from(answer, 'latin1')
  const { url, requests } = await supplier(t, () => ({ bytes, cut: 0, closes: false }))
  return { port: await proxyOn(t, 'fast', url), requests }
}

test('another major version is no answer', async (t) => {
  const old = await fastProxy(t, 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok')
  t.equal((await raw(old.port, post('/bid/acme', '{}'))).status, 502)
})

test('chunks that llhttp does not see as such are no answer', async (t) => {
  const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n'
  const { url } = await supplier(t, () => ({ bytes: Buffer.from(answer), cut: 0, closes: true }))
  const request = post('/bid/acme', '{}')
  t.equal((await raw(await proxyOn(t, 'general', url), request)).status, 502)
  t.match(seen(await raw(await proxyOn(t, 'fast', url), request)), { status: 200, body: 'ok' })
})

test('a storm of interim answers ends as no answer', async (t) => {
  const bytes = Buffer.from(`${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(40)}${ok}`)
  const { url } = await supplier(t, () => ({ bytes, cut: 0, closes: false }))
  for (const lane of ['fast', 'general'] as const)
    t.equal((await raw(await proxyOn(t, lane, url), post('/bid/acme', '{}'))).status, 502, lane)
})

/** As many whole answers as this, one behind the other. */
const answered = (count: number) => (text: string) =>
  text.split('HTTP/1.1 200').length > count && text.endsWith('ok')

test('a connection goes over to the general lane with its bytes, at any request', async (t) => {
  const { port, requests } = await fastProxy(t, ok.toString())
  const plain = post('/bid/acme', '{"id":"plain"}')
  const unusual = {
    chunked: Buffer.from(
      'POST /bid/acme HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    ),
    expecting: post('/bid/acme', '{}', 'Expect: 100-continue\r\n'),
    closing: post('/bid/acme', '{}', 'Connection: close\r\n'),
    'with a second path': post('/bid/acme?x=1', '{}', 'Connection: X-A, keep-alive\r\nX-A: 1\r\n'),
  }
  for (const [name, other] of Object.entries(unusual)) {
    requests.length = 0
    const together = await raw(port, Buffer.concat([plain, plain, other]), answered(3))
    t.equal(together.bytes.split('HTTP/1.1 200').length - 1, 3, `${name}: pipelined`)
    t.equal(requests.length, 3)
    const alone = await raw(port, [other], answered(1))
    t.equal(alone.status === 200 || alone.bytes.includes('HTTP/1.1 200'), true, `${name}: alone`)
  }
  for (let cut = 1; cut < plain.length; cut += 7) {
    const pieces = [plain.subarray(0, cut), plain.subarray(cut)]
    t.equal((await pausing(port, pieces)).status, 200, `a request cut at ${cut}`)
  }
})

/** Sends the pieces in segments of their own. */
async function pausing(port: number, pieces: Buffer[]): Promise<RawAnswer> {
  const socket = callTo(port)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  for (const piece of pieces) await segment(socket, piece)
  await until(() => text.endsWith('ok') || socket.destroyed, { what: 'a whole response' })
  socket.destroy()
  return {
    status: Number(text.split(' ')[1]),
    head: text,
    headers: {},
    body: '',
    bytes: text,
    closed: false,
  }
}
