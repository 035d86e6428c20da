/**
 * Sockets of the fast lane read into one buffer, one after another: bytes that are kept are copied before the next read.
 * Otherwise Node allocates 64 KiB for each read of a socket.
 */
import { connect, type LookupFunction, Socket, type TcpNetConnectOpts } from 'node:net'
import type { ConnectionOptions, TLSSocket } from 'node:tls'
import type { TlsSessions } from './tls-sessions.ts'

const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

/** Takes what was read: `bytes` up to `count`, which are valid only during the call. The order is that of Node. */
type OnRead<Result> = (count: number, bytes: Buffer) => Result

/** Where an endpoint is, and how it is secured; `tls` null: plain TCP. */
export interface Target {
  host: string
  port: number
  lookup: LookupFunction
  tls: TlsSessions | null
}

/**
 * Connects to an endpoint.
 *
 * @param target host, port, how its name is looked up, and TLS
 * @param onRead is called with the bytes of each read, which are valid during the call; false pauses the socket
 * @param onConnected is called when requests can be written: over TLS, once the certificate is verified
 */
export function connectTo(
  { host, port, lookup, tls }: Target,
  onRead: OnRead<boolean>,
  onConnected: () => void,
): Socket {
  const target: TcpNetConnectOpts = {
    ...{ host, port, lookup },
    autoSelectFamily: false,
    noDelay: true,
    onread: { buffer: readBuffer, callback: onRead },
  }
  return tls === null
    ? connect(target, onConnected)
    : tls.connect(target as ConnectionOptions, onConnected)
}

/**
 * Whether the socket is one of TLS.
 *
 * @param socket of either side
 */
export const isTls = (socket: Socket): boolean => (socket as TLSSocket).encrypted === true

interface Internals {
  _handle: { useUserBuffer?(buffer: Buffer): void } | null
  [key: symbol]: unknown
}

const symbols = Object.getOwnPropertySymbols(new Socket())
const symbolOf = (name: string) => symbols.find(({ description }) => description === name)
const bufferKey = symbolOf('kBuffer')
const callbackKey = symbolOf('kBufferCb')

/**
 * What the socket of a caller reads; the shared buffer saves 7 % of a no-bid. Accepted sockets have the means of `onread`,
 * but only under the symbols of that option. Without these, the chunks of the stream are taken.
 */
export class SocketReads {
  private readonly socket: Socket
  private onRead: OnRead<boolean>
  private readonly onData: (chunk: Buffer) => void

  /** Create it before the socket has read anything. */
  constructor(socket: Socket, onRead: OnRead<void>) {
    this.socket = socket
    this.onRead = (count, bytes) => {
      onRead(count, bytes)
      return true
    }
    this.onData = (chunk) => onRead(chunk.length, chunk)
    if (!this.readShared()) socket.on('data', this.onData)
  }

  private readShared(): boolean {
    const internals = this.socket as unknown as Internals
    const handle = internals._handle
    if (bufferKey === undefined || callbackKey === undefined || handle?.useUserBuffer === undefined)
      return false
    internals[bufferKey] = readBuffer
    internals[callbackKey] = (count: number) => this.onRead(count, readBuffer)
    handle.useUserBuffer(readBuffer)
    return true
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    if (this.socket.isPaused()) this.socket.resume()
  }

  /** Whoever has the socket next reads from its stream. */
  stop(): void {
    const { socket } = this
    socket.off('data', this.onData)
    this.onRead = (count, bytes) => socket.push(Buffer.from(bytes.subarray(0, count)))
  }
}
