/** Calls between the processes of a node, over the IPC channel of node:child_process. Messages arrive in order. */

/** One end of the channel: a child process, or `process` in the child. */
interface Channel {
  send?(message: unknown, callback?: (error: Error | null) => void): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any port
type Method = (...args: any[]) => unknown

type Message =
  | { kind: 'call'; id: number; method: string; args: unknown[] }
  | { kind: 'tell'; method: string; args: unknown[] }
  | { kind: 'result'; id: number; value: unknown }
  | { kind: 'error'; id: number; message: string }

interface Waiting {
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Messages in the buffer of the channel, above which those that may be lost are dropped. */
const maxUnsent = 2000

export class Peer {
  private readonly channel: Channel
  private readonly methods: Record<string, Method>
  private readonly waiting = new Map<number, Waiting>()
  private id = 0
  private unsent = 0
  private ended: Error | null = null

  /** `methods`: what the other process may call. */
  constructor(channel: Channel, methods: Record<string, Method>) {
    this.channel = channel
    this.methods = methods
    channel.on('message', (message) => void this.receive(message as Message))
  }

  /** Rejects if the other process ends, or its method throws. */
  call<Result>(method: string, ...args: unknown[]): Promise<Result> {
    if (this.ended !== null) return Promise.reject(this.ended)
    const id = ++this.id
    return new Promise<Result>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting['resolve'], reject })
      this.send({ kind: 'call', id, method, args })
    })
  }

  tell(method: string, ...args: unknown[]): void {
    this.send({ kind: 'tell', method, args })
  }

  /** The other process does not read: what may be lost is not sent. */
  get isCongested(): boolean {
    return this.unsent >= maxUnsent
  }

  /** The methods of a port that the other process implements. */
  port<Port extends object>(name: string, methods: readonly (keyof Port & string)[]): Port {
    return Object.fromEntries(
      methods.map((method) => [
        method,
        (...args: unknown[]) => this.call(`${name}.${method}`, ...args),
      ]),
    ) as Port
  }

  /** The other process has ended. */
  end(error: Error): void {
    this.ended = error
    for (const { reject } of this.waiting.values()) reject(error)
    this.waiting.clear()
  }

  private send(message: Message): void {
    if (this.ended !== null) return
    this.unsent++
    // The end of the other process is an event of its own.
    this.channel.send?.(message, () => {
      this.unsent--
    })
  }

  private async receive(message: Message): Promise<void> {
    if (message.kind === 'tell') return void this.methods[message.method]!(...message.args)
    if (message.kind === 'call') return this.respond(message)
    const waiting = this.waiting.get(message.id)
    this.waiting.delete(message.id)
    if (message.kind === 'result') waiting?.resolve(message.value)
    else waiting?.reject(new Error(message.message))
  }

  private async respond({ id, method, args }: Message & { kind: 'call' }): Promise<void> {
    try {
      this.send({ kind: 'result', id, value: await this.methods[method]!(...args) })
    } catch (error) {
      this.send({ kind: 'error', id, message: (error as Error).message })
    }
  }
}

/** The methods of a port, by the names that `Peer.port` calls. */
export const served = (name: string, port: object, methods: readonly string[]) =>
  Object.fromEntries(
    methods.map((method) => [
      `${name}.${method}`,
      (...args: unknown[]) => (port as Record<string, Method>)[method]!(...args),
    ]),
  )
