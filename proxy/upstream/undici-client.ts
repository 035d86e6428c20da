/** A connection by undici, one Client each: https endpoints, and whatever the strict wire is not for. */
import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { foreignCoding, plainPhrase } from '../exchange/headers.ts'
import type { AnswerSink, SendFailure, Sent } from '../listen/types.ts'
import { deaf, idleTimeout, type Owner } from './pool-events.ts'

const version = /^HTTP\/1\.[01]$/
/** RFC 9112 4: what a reason phrase may not hold. */
const control = /[\0-\x08\x0a-\x1f\x7f]/

export interface Connector {
  connect: ReturnType<typeof buildConnector>
  /** Told the address that the connection being made by `connect` is for. */
  looked: (address: string) => void
}

/** The connection and the request on it; itself undici's handler, so that a request allocates none. */
export class GeneralConnection implements Sent {
  born = performance.now()
  /** undici closes idle ones by itself. */
  spareUntil = Number.POSITIVE_INFINITY
  private readonly client: Client
  private readonly owner: Owner<GeneralConnection>
  private socket: Socket | null = null
  private address = ''
  private sink: AnswerSink | null = null
  private reused = false
  private readBefore = 0
  private gone = false
  /** The first 8 bytes of the answer. */
  private version = ''
  private resume: () => void = () => {}

  constructor(origin: string, connector: Connector, owner: Owner<GeneralConnection>) {
    this.owner = owner
    this.client = new Client(origin, {
      connect: (options, callback) => {
        connector.looked = (address) => {
          this.address = address
        }
        connector.connect(options, (...result) => {
          const [error, socket] = result
          if (error !== null) owner.failed((error as { address?: string }).address ?? '')
          else this.connected(socket as Socket)
          callback(...result)
        })
      },
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleTimeout,
      keepAliveMaxTimeout: idleTimeout,
      pipelining: 1,
      maxHeaderSize: 65_536,
    })
    this.client.on('disconnect', () => {
      this.socket = null
      if (this.sink === null) this.destroy()
    })
  }

  private connected(socket: Socket): void {
    this.socket = socket
    this.born = performance.now()
    this.reused = false
    this.readBefore = 0
    // undici takes an answer of any version, and does not tell which one it was.
    const { read } = socket
    socket.read = (size) => {
      const chunk: Buffer | null = read.call(socket, size)
      if (chunk !== null && this.version.length < 8) this.versionRead(chunk, socket)
      return chunk
    }
  }

  private versionRead(chunk: Buffer, socket: Socket): void {
    this.version += chunk.toString('latin1', 0, 8 - this.version.length)
    const known =
      this.version.length < 8 ? 'HTTP/1.1'.startsWith(this.version) : version.test(this.version)
    if (!known) socket.destroy(new Error('not an answer of HTTP/1'))
  }

  get usable(): boolean {
    return !this.gone && this.socket !== null && !this.socket.destroyed
  }

  dispatch(path: string, headers: string[], body: Buffer, sink: AnswerSink): void {
    this.sink = sink
    this.version = ''
    this.reused = this.socket !== null
    this.readBefore = this.socket?.bytesRead ?? 0
    this.client.dispatch(
      { path, method: 'POST', headers, body },
      this as Dispatcher.DispatchHandler,
    )
  }

  abort(): void {
    this.sink = null
    if (this.socket === null && performance.now() - this.born > deaf)
      this.owner.failed(this.address)
    this.destroy()
  }

  destroy(): void {
    if (this.gone) return
    this.gone = true
    this.owner.forget(this)
    // The socket is destroyed at once; what the promise waits for need not be.
    this.client.destroy().catch(() => undefined)
  }

  // undici's own handler interface: the newer one is a wrapper around it that parses every header.
  onConnect(): void {}

  onHeaders(status: number, raw: Buffer[], resume: () => void, message: string): boolean {
    if (status < 200 || this.sink === null) return true
    const headers = new Array<string>(raw.length)
    for (let at = 0; at < raw.length; at++) headers[at] = raw[at]!.toString('latin1')
    const fault = this.headFault(headers, message)
    if (fault !== null) {
      this.onError(new Error(fault))
      return true
    }
    this.resume = resume
    this.sink.head(status, plainPhrase(message), headers)
    // The head is all of it (RFC 9110 15.3.5, 15.4.5), whatever length it names: undici would wait for a body.
    if (status === 204 || status === 304) this.finish()
    return true
  }

  private headFault(headers: readonly string[], message: string): string | null {
    if (foreignCoding(headers, this.version === 'HTTP/1.0') !== undefined)
      return 'a transfer coding that is not known'
    return control.test(message) ? 'a control character in the reason phrase' : null
  }

  onData(chunk: Buffer): boolean {
    return this.sink === null ? true : this.sink.data(chunk, this.resume)
  }

  onComplete(): void {
    // A request that is still being written met an early answer: the next one would wait behind the rest of it.
    if (this.usable && this.socket?.writableLength === 0) this.owner.release(this)
    else this.destroy()
    this.finish()
  }

  private finish(): void {
    const { sink } = this
    this.sink = null
    sink?.end()
  }

  onError(error: Error): void {
    const { sink } = this
    this.sink = null
    const kind = this.failureKind()
    this.destroy()
    sink?.fail({ kind, error })
  }

  private failureKind(): SendFailure['kind'] {
    // undici reports the failure before it announces the disconnect, so the socket still tells its bytes.
    if (this.socket === null) return 'unsent'
    return this.reused && this.socket.bytesRead === this.readBefore ? 'reused' : 'broken'
  }
}
