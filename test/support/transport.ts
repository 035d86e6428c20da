/**
 * What the sockets of a test are: plain TCP, or TLS, which `TEST_TRANSPORT=tls` sets for callers, proxies and suppliers alike. The
 * same test then runs over both.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import {
  connect as connectTls,
  createServer as createTls,
  setDefaultCACertificates,
} from 'node:tls'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { certificate } from './certificate.ts'

export type Transport = 'plain' | 'tls'

export const transport = (): Transport =>
  process.env['TEST_TRANSPORT'] === 'tls' ? 'tls' : 'plain'

const host = '127.0.0.1'
type Pair = ReturnType<typeof certificate>
const made = new Map<string, Pair>()

/** Of the listeners and suppliers of a test, which trusts it; null where openssl is absent. */
export const testCertificate = (): Pair =>
  getOrAdd(made, host, () => {
    const pair = certificate(host)
    if (pair !== null) setDefaultCACertificates([pair.cert])
    return pair
  })

/** For `proxy.tls`; null: plain. */
export const listenerTls = (on = transport()): Pair => (on === 'plain' ? null : testCertificate())

interface CallOptions {
  allowHalfOpen?: boolean
}

/** A caller's connection. What is written before it is established is sent then. */
export function callTo(port: number, options: CallOptions = {}, on = transport()): Socket {
  const target = { port, host, ...options }
  const socket = on === 'plain' ? connect(target) : connectTls(target)
  return socket.setNoDelay(true)
}

/** Resolves when the connection is established, the handshake included. */
export const established = (socket: Socket, on = transport()): Promise<void> =>
  new Promise((resolve) => socket.once(on === 'plain' ? 'connect' : 'secureConnect', resolve))

/** The TCP sockets below those of TLS, by the other end's port: only they can be reset. */
const below = new Map<number, Socket>()

/** A server of sockets; its origin begins with `schemeOf`. */
export function socketServer(accept: (socket: Socket) => void, on = transport()): Server {
  const tls = listenerTls(on)
  if (tls === null) return createServer({ noDelay: true }, accept)
  return createTls({ ...tls, noDelay: true }, accept).on('connection', (socket: Socket) => {
    const { remotePort } = socket
    if (remotePort === undefined) return
    below.set(remotePort, socket)
    socket.once('close', () => below.delete(remotePort))
  })
}

/** The TCP socket of a connection of `socketServer`. */
export const rawSocketOf = (socket: Socket): Socket => below.get(socket.remotePort ?? 0) ?? socket

/** Ends a connection of `socketServer` with a TCP reset. */
export const reset = (socket: Socket): void => void rawSocketOf(socket).resetAndDestroy()

export const schemeOf = (on = transport()): string => (on === 'plain' ? 'http' : 'https')
