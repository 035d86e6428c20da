/**
 * Connections to one endpoint: one undici Client each, idle ones last in, first out, so that the surplus of a
 * peak ages and closes. We hold them ourselves, not a Pool, because replay has to know whether a request
 * met a fresh connection or a reused one, and whether a byte of answer came (RFC 9112 9.3.1).
 */
import type { Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher } from 'undici'
import type { AnswerSink, SendFailure, Sent } from '../lane/lane.ts'
import type { Resolver } from './resolver.ts'

/** Shorter than what servers keep (nginx 75 s, Node 5 s, Apache 5 s); a Keep-Alive hint may shorten it. */
const idleTimeout = 4000
/** Upstream connections live 5 minutes at most, so that new nodes behind a name get traffic. */
const maxAge = 300_000

export interface Connections {
  /** An idle connection, the one used last; `fresh` or none idle: a new one. */
  take(fresh: boolean): Connection
  readonly idle: number
  readonly open: number
  /** Closes what is idle; what is busy closes when its answer is whole. */
  close(): void
  destroy(): void
}

type Connector = ReturnType<typeof buildConnector>

export function createConnections(origin: string, resolver: Resolver, ca?: string): Connections {
  const { hostname } = new URL(origin)
  const connector = buildConnector({
    timeout: 10_000,
    allowH2: false,
    autoSelectFamily: false,
    lookup: resolver.lookup,
    ...(ca === undefined ? {} : { ca }),
  } as buildConnector.BuildOptions)
  const idle: Connection[] = []
  const all = new Set<Connection>()
  let closed = false

  const release = (connection: Connection) => {
    if (closed || connection.born + maxAge < performance.now()) connection.destroy()
    else idle.push(connection)
  }
  const forget = (connection: Connection) => {
    all.delete(connection)
    const at = idle.lastIndexOf(connection)
    if (at >= 0) idle.splice(at, 1)
  }
  const failed = (address: string) => resolver.failed(hostname, address)

  const take = (fresh: boolean): Connection => {
    if (fresh) return open()
    for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) {
      if (connection.usable && connection.born + maxAge >= performance.now()) return connection
      connection.destroy()
    }
    return open()
  }
  const open = (): Connection => {
    const connection = new Connection(origin, connector, { release, forget, failed })
    all.add(connection)
    return connection
  }

  return {
    take,
    get idle() {
      return idle.length
    },
    get open() {
      return all.size
    },
    close() {
      closed = true
      for (const connection of idle.splice(0)) connection.destroy()
    },
    destroy() {
      closed = true
      for (const connection of [...all]) connection.destroy()
    },
  }
}

interface Owner {
  release(connection: Connection): void
  forget(connection: Connection): void
  failed(address: string): void
}

/** One connection and the request on it; itself undici's handler, so that a request allocates none. */
export class Connection implements Sent {
  born = performance.now()
  private readonly client: Client
  private readonly owner: Owner
  private socket: Socket | null = null
  private sink: AnswerSink | null = null
  private reused = false
  private readBefore = 0
  private gone = false
  private resume: () => void = () => {}

  constructor(origin: string, connector: Connector, owner: Owner) {
    this.owner = owner
    this.client = new Client(origin, {
      connect: (options, callback) =>
        connector(options, (...result) => {
          const [error, socket] = result
          if (error !== null) owner.failed((error as { address?: string }).address ?? '')
          else this.connected(socket as Socket)
          callback(...result)
        }),
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
  }

  get usable(): boolean {
    return !this.gone && this.socket !== null && !this.socket.destroyed
  }

  dispatch(path: string, headers: string[], body: Buffer, sink: AnswerSink): void {
    this.sink = sink
    this.reused = this.socket !== null
    this.readBefore = this.socket?.bytesRead ?? 0
    this.client.dispatch(
      { path, method: 'POST', headers, body },
      this as Dispatcher.DispatchHandler,
    )
  }

  abort(): void {
    this.sink = null
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
    this.resume = resume
    this.sink.head(status, message, headers)
    return true
  }

  onData(chunk: Buffer): boolean {
    return this.sink === null ? true : this.sink.data(chunk, this.resume)
  }

  onComplete(): void {
    const { sink } = this
    this.sink = null
    if (this.usable) this.owner.release(this)
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
