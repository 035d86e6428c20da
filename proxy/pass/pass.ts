/**
 * `/pass/<ssp>/…`: what else lives on a supplier's host (cookie syncs, pixels, WebSocket upgrades), never rewritten.
 * Upgrades go by http-proxy, which is unmaintained since 2020 and lets errors of the upstream socket reach the top:
 * they are handled here. All else is carried (`carry.ts`).
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import httpProxy from 'http-proxy'
import { plainAddress } from '../callers.ts'
import { header, lower, towardsSupplier } from '../exchange/headers.ts'
import { carry } from './forward.ts'
import { overseeUpgrade } from './upgrade.ts'

export interface PassThrough {
  /** `ends`: whether the connection ends with this answer. */
  web(
    request: IncomingMessage,
    response: ServerResponse,
    origin: string,
    path: string,
    ends: (response: ServerResponse) => boolean,
  ): void
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

/** Fields of an upgrade as node:http takes them: repeated ones as lists, and what is said hop by hop said again. */
function upgrading(fields: readonly string[]): IncomingMessage['headers'] {
  // Without a prototype: a field may be called `constructor`.
  const headers: Record<string, string[]> = Object.create(null)
  for (let at = 0; at < fields.length; at += 2) {
    const name = lower(fields[at]!)
    headers[name] = [...(headers[name] ?? []), fields[at + 1]!]
  }
  return { ...headers, connection: 'Upgrade', upgrade: 'websocket' } as IncomingMessage['headers']
}

export function createPassThrough(options: {
  trusted: (remote: string) => boolean
  via: () => string | null
  onError: (error: Error) => void
}): PassThrough {
  const agents = {
    http: new HttpAgent({ keepAlive: true, maxSockets: 256 }),
    https: new HttpsAgent({ keepAlive: true, maxSockets: 256 }),
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
  const paths = new WeakMap<IncomingMessage, string>()
  let ending = false

  proxy.on('proxyReqWs', (upstream: ClientRequest, request, socket: Socket) => {
    upstream.path = paths.get(request)!
    overseeUpgrade(upstream, socket, silence)
  })
  proxy.on('open', (upstream: Socket) => {
    upgraded.add(upstream)
    upstream.on('error', (error) => options.onError(error))
    upstream.once('close', () => upgraded.delete(upstream))
  })
  proxy.on('error', (error, _request, socket) => {
    options.onError(error)
    socket.destroy()
  })

  /** The caller's fields as the origin gets them. */
  const fieldsOf = (request: IncomingMessage, host: string) => {
    const { rawHeaders } = request
    const remote = plainAddress(request.socket.remoteAddress ?? '')
    return towardsSupplier(rawHeaders, host, null, {
      remote,
      trusted: options.trusted(remote),
      proto: (request.socket as TLSSocket).encrypted === true ? 'https' : 'http',
      host: header(rawHeaders, 'host') ?? '',
      via: options.via(),
    })
  }

  return {
    web(request, response, origin, path, ends) {
      const url = new URL(origin)
      const fields = fieldsOf(request, url.host)
      const { onError } = options
      const via = options.via()
      carry(request, response, { origin: url, path, fields, agents, via, silence, onError, ends })
    },
    upgrade(request, socket, head, origin, path) {
      if (ending) return void socket.destroy()
      // http-proxy takes what it sends from here.
      request.headers = upgrading(fieldsOf(request, new URL(origin).host))
      // http-proxy joins slashes, escapes characters, and throws on `//a@[`: it gets no path.
      request.url = '/'
      paths.set(request, path)
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      // The pool's agents keep their sockets; an upgraded one is never given back.
      proxy.ws(request, socket, head, { target: origin })
    },
    closeUpgraded() {
      ending = true
      for (const socket of upgraded) socket.destroy()
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy()
      proxy.close()
    },
  }
}
