/**
 * `/pass/<ssp>/…`: what else lives on a supplier's host (cookie syncs, pixels, WebSocket upgrades), by
 * http-proxy, never rewritten. The package is unmaintained since 2020: on a caller's abort it leaves the upstream
 * request open, and it lets errors of the upstream socket reach the top, so both are handled here.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Socket } from 'node:net'
import httpProxy from 'http-proxy'
import { plainAddress } from './callers.ts'

export interface PassThrough {
  web(request: IncomingMessage, response: ServerResponse, origin: string, path: string): void
  upgrade(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    origin: string,
    path: string,
  ): void
  /** Upgraded connections have no end of their own: a drain ends them. */
  closeUpgraded(): void
  close(): void
}

/** How long a passed-through exchange may be silent. */
const silence = 30_000

export function createPassThrough(options: {
  trusted: (remote: string) => boolean
  onError: (error: Error) => void
}): PassThrough {
  const agents = {
    'http:': new HttpAgent({ keepAlive: true, maxSockets: 256 }),
    'https:': new HttpsAgent({ keepAlive: true, maxSockets: 256 }),
  }
  const proxy = httpProxy.createProxyServer({
    changeOrigin: true,
    xfwd: false,
    ignorePath: false,
    secure: true,
    proxyTimeout: silence,
    timeout: silence,
  })
  const upgraded = new Set<Socket>()

  proxy.on('proxyReq', (upstream: ClientRequest, _request, response) => {
    // Without this a caller that leaves keeps the upstream request running until its own end.
    response.once('close', () => upstream.destroy())
    upstream.on('error', () => {})
    upstream.once('response', (answer: IncomingMessage) => {
      // A body cut short of its Content-Length: the caller must see a closed connection, not a whole answer.
      answer.once('aborted', () => response.destroy())
      answer.on('error', (error) => options.onError(error))
    })
  })
  proxy.on('proxyReqWs', (upstream: ClientRequest, _request, socket: Socket) => {
    upstream.on('error', () => {})
    socket.once('close', () => upstream.destroy())
  })
  proxy.on('open', (upstream: Socket) => {
    upgraded.add(upstream)
    upstream.on('error', (error) => options.onError(error))
    upstream.once('close', () => upgraded.delete(upstream))
  })
  proxy.on('error', (error, _request, response) => {
    options.onError(error)
    if (!('writeHead' in response)) return void response.destroy()
    if (response.headersSent) return void response.destroy()
    response.writeHead(502, { 'x-bidweir-reason': 'upstream_error', 'Content-Length': '0' })
    response.end()
  })

  /** `Forwarded`-like headers as for bids: appended for trusted proxies, replaced otherwise. */
  const forward = (request: IncomingMessage) => {
    const { headers } = request
    const remote = plainAddress(request.socket.remoteAddress ?? '')
    const kept = options.trusted(remote)
    const before = headers['x-forwarded-for']
    headers['x-forwarded-for'] =
      kept && before !== undefined ? `${String(before)}, ${remote}` : remote
    if (!kept || headers['x-forwarded-proto'] === undefined)
      headers['x-forwarded-proto'] = 'encrypted' in request.socket ? 'https' : 'http'
    if (!kept || headers['x-forwarded-host'] === undefined)
      headers['x-forwarded-host'] = headers.host ?? ''
  }

  const target = (origin: string) => ({
    target: origin,
    agent: origin.startsWith('https:') ? agents['https:'] : agents['http:'],
  })

  return {
    web(request, response, origin, path) {
      forward(request)
      request.url = path
      proxy.web(request, response, target(origin))
    },
    upgrade(request, socket, head, origin, path) {
      forward(request)
      request.url = path
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      // The pool's agents keep their sockets; an upgraded one is never given back.
      proxy.ws(request, socket, head, { target: origin })
    },
    closeUpgraded() {
      for (const socket of upgraded) socket.destroy()
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy()
      proxy.close()
    },
  }
}
