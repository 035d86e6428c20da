/** The HTTP server of Node.js under the listener: its parser's settings, TLS, which upgrades it offers, and its address. */
import { constants } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import {
  type AddressInfo,
  createServer as createNetServer,
  type ListenOptions,
  type Server as NetServer,
} from 'node:net'
import { isIdle } from '../../opd/base/pipelining.ts'
import type { ProxyConfig } from '../config.ts'
import { hasBody, pathOf } from './node-http.ts'

/** Bytes. */
export const maxHead = 64 * 1024
/** Milliseconds between two looks at the time limits of connections. */
export const checkInterval = (headTimeout: number) => Math.max(50, Math.min(1000, headTimeout / 5))

export type ListenerTls = NonNullable<ProxyConfig['tls']>

/** Seconds that a session can be resumed: as long as a certificate is not verified again. */
const sessionTimeout = 300

export const secureContext = ({ cert, key, clientCa }: ListenerTls, ticketKeys: Buffer) =>
  ({
    ...{ cert, key, ticketKeys, sessionTimeout },
    ...(clientCa === undefined ? {} : { ca: clientCa }),
    minVersion: 'TLSv1.2',
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    // That of Node.js is of the command line, which differs between processes. With other authorities of callers the
    // ticket keys differ as well.
    sessionIdContext: 'bidweir',
  }) as const

/** What the listener offers by ALPN, in order of preference. */
export const protocolsOf = ({ http2 }: ProxyConfig): string[] =>
  http2.enabled ? ['h2', 'http/1.1'] : ['http/1.1']

/** As ALPN has it (RFC 7301): each name behind its length. */
export const alpnBytes = (protocols: readonly string[]): Buffer =>
  Buffer.concat(protocols.map((name) => Buffer.from(`${String.fromCharCode(name.length)}${name}`)))

/** @param ticketKeys null: without TLS */
export function createNodeServer(
  config: ProxyConfig,
  ticketKeys: Buffer | null,
): Server | TlsServer {
  const { tls, headTimeout } = config
  const settings = {
    insecureHTTPParser: false,
    // headFault checks the host, and the router sends a problem document.
    requireHostHeader: false,
    maxHeaderSize: maxHead,
    connectionsCheckingInterval: checkInterval(headTimeout),
    noDelay: true,
    // Any other upgrade offer is ignored (RFC 9110 7.8). Java's client sends one with its first POST.
    shouldUpgradeCallback: ({ method, headers, socket, url = '' }: IncomingMessage) =>
      method === 'GET' &&
      headers.upgrade?.toLowerCase() === 'websocket' &&
      !hasBody(headers) &&
      isIdle(socket) &&
      pathOf(url).startsWith('/pass/'),
  }
  if (tls === undefined || ticketKeys === null) return createServer(settings)
  return createTlsServer({
    ...{ ...settings, ...secureContext(tls, ticketKeys), handshakeTimeout: headTimeout },
    ALPNProtocols: protocolsOf(config),
    requestCert: tls.clientCa !== undefined,
    // The listener refuses them and counts why.
    rejectUnauthorized: false,
  })
}

/** For one process, or for several that share the port. */
export function bind(server: NetServer, options: ListenOptions): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve(server.address() as AddressInfo)
    })
  })
}

/** With SO_REUSEPORT, a second service of the same user would get a part of the connections without an error. */
export async function assertFree(address: { host: string; port: number }): Promise<void> {
  if (address.port === 0) return
  const server = createNetServer()
  await bind(server, address)
  await new Promise((resolve) => server.close(resolve))
}
