/**
 * WebSocket upgrades by http-proxy, which has not been maintained since 2020. It pipes the two sockets and does nothing else:
 * errors, callers that leave before the response, hosts that do not respond, one side that never closes, and responses
 * that are not an upgrade are handled here.
 */

import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import httpProxy from 'http-proxy'
import { framing, headText, lower, plainPhrase, towardsCaller } from '../wire/headers.ts'

/** `path`: that of the request after `/pass/<ssp>`, with its query. */
export interface PassTarget {
  origin: string
  path: string
}

/** Milliseconds without any data after which a request fails; for upgrades until the response, and until the close. */
export const silence = 30_000
/** Bytes that a caller may send before the response. */
const maxEarly = 64 * 1024

/** The fields of an upgrade in the form of node:http: repeated ones as lists, with new fields for this connection. */
function upgradeHeaders(fields: readonly string[]): IncomingMessage['headers'] {
  // Without a prototype: a field's name may be `constructor`.
  const headers: Record<string, string[]> = Object.create(null)
  for (let index = 0; index < fields.length; index += 2) {
    const name = lower(fields[index]!)
    headers[name] = [...(headers[name] ?? []), fields[index + 1]!]
  }
  return { ...headers, connection: 'Upgrade', upgrade: 'websocket' } as IncomingMessage['headers']
}

export function createUpgrades(onError: (error: Error) => void) {
  const proxy = httpProxy.createProxyServer({ changeOrigin: true, secure: true })
  const upgraded = new Set<Socket>()
  const paths = new WeakMap<IncomingMessage, string>()
  let ending = false

  proxy.on('proxyReqWs', (upstream: ClientRequest, request, socket: Socket) => {
    upstream.path = paths.get(request)!
    overseeUpgrade(upstream, socket)
  })
  proxy.on('open', (upstream: Socket) => {
    upgraded.add(upstream)
    upstream.on('error', onError)
    upstream.once('close', () => upgraded.delete(upstream))
  })
  proxy.on('error', (error, _request, socket) => {
    onError(error)
    socket.destroy()
  })

  return {
    /** `fields`: those for the origin. */
    upgrade(
      request: IncomingMessage,
      socket: Socket,
      head: Buffer,
      { origin, path }: PassTarget,
      fields: readonly string[],
    ): void {
      if (ending) return void socket.destroy()
      // http-proxy sends these headers.
      request.headers = upgradeHeaders(fields)
      // http-proxy joins slashes, escapes characters, and throws on `//a@[`: the path is set in 'proxyReqWs'.
      request.url = '/'
      paths.set(request, path)
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      // No agent: an upgraded socket never returns to its pool.
      proxy.ws(request, socket, head, { target: origin })
    },
    closeAll(): void {
      ending = true
      for (const socket of upgraded) socket.destroy()
    },
    close: () => proxy.close(),
  }
}

/** To be called before http-proxy listens to `upstream`. */
function overseeUpgrade(upstream: ClientRequest, socket: Socket): void {
  const early: Buffer[] = []
  let earlyBytes = 0
  // The socket is read, because the close of a socket that is not read remains unnoticed.
  const onData = (chunk: Buffer) => {
    early.push(chunk)
    earlyBytes += chunk.length
    if (earlyBytes > maxEarly) socket.destroy()
  }
  const gone = () => socket.destroy()
  socket.on('data', onData).on('end', gone)
  upstream.setTimeout(silence, () => upstream.destroy(new Error('silence')))
  upstream.on('error', gone)
  socket.once('close', () => upstream.destroy())

  const settle = () => {
    socket.off('data', onData).off('end', gone).pause()
    if (earlyBytes > 0) socket.unshift(Buffer.concat(early))
  }
  queueMicrotask(() => {
    // http-proxy would send 101 after any upgrade, and would forward other responses without their framing.
    const pipes = upstream.listeners('upgrade') as ((...given: unknown[]) => void)[]
    upstream.removeAllListeners('upgrade').removeAllListeners('response')
    upstream.once('upgrade', (response: IncomingMessage, other: Socket, head: Buffer) => {
      if (response.statusCode !== 101) return forwardDeclined(response, socket, other)
      settle()
      endTogether(socket, other)
      endTogether(other, socket)
      for (const pipe of pipes) pipe.call(upstream, response, other, head)
    })
    upstream.once('response', (response: IncomingMessage) => forwardResponse(response, socket))
  })
}

function endTogether(one: Socket, other: Socket): void {
  one.once('end', () => other.setTimeout(silence, () => other.destroy()))
  one.once('close', () => other.destroySoon())
}

/** A response that names a protocol, but is not a 101 (RFC 9110 15.5.22). node:http does not read its body. */
function forwardDeclined(response: IncomingMessage, socket: Socket, other: Socket): void {
  const { statusCode = 0 } = response
  other.destroy()
  const bodiless = ['Content-Length', '0', 'Connection', 'close']
  const fields = towardsCaller(response.rawHeaders, framing)
  socket.end(`${headText(`HTTP/1.1 ${statusCode} \r\n`, [...fields, ...bodiless])}\r\n`, 'latin1')
}

function forwardResponse(response: IncomingMessage, socket: Socket): void {
  const { statusCode = 0, statusMessage = '', rawHeaders } = response
  if (statusCode < 200 || statusCode > 999) return void socket.destroy()
  const line = `HTTP/1.1 ${statusCode} ${plainPhrase(statusMessage)}\r\n`
  const fields = [...towardsCaller(rawHeaders), 'Connection', 'close']
  socket.write(`${headText(line, fields)}\r\n`, 'latin1')
  response.on('error', () => socket.destroy())
  response.on('aborted', () => socket.destroy())
  response.pipe(socket)
  response.once('end', () => socket.destroySoon())
}
