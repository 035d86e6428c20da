/**
 * `/pass/<ssp>/…`: other requests for a supplier's host (cookie syncs, pixels, WebSocket upgrades), never rewritten. Upgrades
 * use http-proxy, which has not been maintained since 2020 and does not handle errors of the upstream socket: they are
 * handled here. Other requests are forwarded by `forward.ts`.
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
import { plainAddress } from '../../opd/shared/client-address.ts'
import { header, lower, towardsSupplier } from '../exchange/headers.ts'
import { forward } from './forward.ts'
import { overseeUpgrade } from './upgrade.ts'

export type PassThrough = ReturnType<typeof createPassThrough>

/** `path`: that of the request after `/pass/<ssp>`, with its query. */
export interface PassTarget {
  origin: string
  path: string
}

/** Milliseconds without any data after which a request fails. */
const silence = 30_000

/** The fields of an upgrade in the form of node:http: repeated ones as lists, with new fields for this connection. */
function upgradeHeaders(fields: readonly string[]): IncomingMessage['headers'] {
  // Without a prototype: a field's name may be `constructor`.
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
}) {
  const agents = {
    http: new HttpAgent({ keepAlive: true, maxSockets: 256 }),
    https: new HttpsAgent({ keepAlive: true, maxSockets: 256 }),
  }
  const proxy = httpProxy.createProxyServer({ changeOrigin: true, secure: true })
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

  /** The caller's header fields in the form for the origin. */
  const fieldsOf = (request: IncomingMessage, host: string) => {
    const { rawHeaders } = request
    const remote = plainAddress(request.socket.remoteAddress ?? '')
    return towardsSupplier(rawHeaders, host, {
      remote,
      trusted: options.trusted(remote),
      proto: (request.socket as TLSSocket).encrypted === true ? 'https' : 'http',
      host: header(rawHeaders, 'host') ?? '',
      via: options.via(),
    })
  }

  return {
    /** `isLast`: whether the connection ends with this response. */
    web(
      request: IncomingMessage,
      response: ServerResponse,
      target: PassTarget,
      isLast: (response: ServerResponse) => boolean,
    ): void {
      const origin = new URL(target.origin)
      forward(request, response, {
        ...{ origin, path: target.path, fields: fieldsOf(request, origin.host), agents, isLast },
        ...{ via: options.via(), silence, onError: options.onError },
      })
    },
    upgrade(request: IncomingMessage, socket: Socket, head: Buffer, target: PassTarget): void {
      const { origin, path } = target
      if (ending) return void socket.destroy()
      // http-proxy sends these headers.
      request.headers = upgradeHeaders(fieldsOf(request, new URL(origin).host))
      // http-proxy joins slashes, escapes characters, and throws on `//a@[`: the path is set in 'proxyReqWs'.
      request.url = '/'
      paths.set(request, path)
      upgraded.add(socket)
      socket.once('close', () => upgraded.delete(socket))
      // No agent: an upgraded socket never returns to its pool.
      proxy.ws(request, socket, head, { target: origin })
    },
    /** Upgraded connections do not end by themselves: a drain closes them. */
    closeUpgraded(): void {
      ending = true
      for (const socket of upgraded) socket.destroy()
    },
    close(): void {
      for (const agent of Object.values(agents)) agent.destroy()
      proxy.close()
    },
  }
}
