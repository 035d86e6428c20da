/** A listener of each kind before a supplier that records what it receives, for tests of pipelined requests. */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Test } from 'tap'
import { certificate } from './certificate.ts'
import { startProxy } from './proxy.ts'
import { post, raw } from './raw.ts'
import { type Response, responsesOf } from './responses.ts'
import { rawSupplier } from './supplier.ts'

const tls = certificate('pipelining')
const listeners = {
  fast: { lane: 'fast', proxy: {} },
  general: { lane: 'general', proxy: {} },
  TLS: { lane: 'fast', proxy: { tls } },
} as const
type Name = keyof typeof listeners

export const ok = (body = 'ok') =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
export const bid = (body = '{}', fields = '', path = '/bid/acme') =>
  post(path, body, fields).toString()
export const request = (version: string, fields: string) =>
  `POST /bid/acme HTTP/${version}\r\n${fields}Content-Length: 2\r\n\r\n{}`
export const chunked = (fields: string, version = '1.1', body = '{}') =>
  `POST /bid/acme HTTP/${version}\r\n${fields}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
export const upgrade =
  'GET /pass/acme/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

type Script = Parameters<typeof rawSupplier>[0]

/** A listener in front of a supplier to which a connection is open. */
export async function world(
  t: Test,
  name: Name,
  script: Script = (socket) => void socket.write(ok()),
  over: object = {},
) {
  const supplier = await rawSupplier(script)
  const route = {
    endpoints: [supplier.url],
    passThrough: new URL(supplier.url).origin,
    timeout: '20s',
  }
  const { lane, proxy: listener } = listeners[name]
  const proxy = await startProxy(
    { acme: route, closed: { ...route, callers: { headers: { 'x-caller': 'known' } } } },
    { lane, proxy: { ...listener, maxRequestBytes: '1000B', ...over } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const open = (port = proxy.port) =>
    name === 'TLS'
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(port, '127.0.0.1')
  /** Sends `bytes` in one segment; what came back until the connection was closed, or as often as `done` says. */
  const send = (bytes: string, done: (text: string) => boolean = () => false) =>
    raw(proxy.port, Buffer.from(bytes, 'latin1'), done, open)
  /** The requests that have reached the supplier, last of all one that is sent now. */
  const reached = async () => {
    await send(bid('"after"', 'Connection: close\r\n'))
    return supplier.requests.map(({ url, body }) => `${url} ${body}`)
  }
  await reached()
  supplier.requests.length = 0
  return { proxy, supplier, send, open, reached }
}

/** The final responses among `bytes`. */
export const finals = (bytes: string): Response[] =>
  (responsesOf(bytes) ?? []).filter(({ status }) => status >= 200)

/** Runs `test` for each kind of listener. */
export function eachListener(test: (name: Name, skip: string | false) => void): void {
  for (const name of Object.keys(listeners) as Name[])
    test(name, name === 'TLS' && tls === null ? 'openssl not found' : false)
}
