/** Calls between the processes of a node, over the IPC channel of node:child_process. Messages arrive in order. */

/** One end of the channel: a child process, or `process` in the child. */
interface Channel {
  send?(message: unknown, callback?: (error: Error | null) => void): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any port
type Method = (...args: any[]) => unknown
/** What the other process may call: methods, and ports, which have methods of their own. */
export type Methods = Record<string, Method | object>

type Message =
  | { kind: 'call'; id: number; method: string; args: unknown[] }
  | { kind: 'notification'; method: string; args: unknown[] }
  | { kind: 'result'; id: number; value: unknown }
  | { kind: 'error'; id: number; message: string }

/** Messages in the buffer of the channel, above which those that may be lost are dropped. */
const maxUnsent = 2000

export class Peer {
  private readonly channel: Channel
  private readonly methods: Methods
  private readonly waiting = new Map<number, PromiseWithResolvers<unknown>>()
  private id = 0
  private unsent = 0
  private ended: Error | null = null

  constructor(channel: Channel, methods: Methods) {
    this.channel = channel
    this.methods = methods
    channel.on('message', (message) => void this.receive(message as Message))
  }

  /** Rejects if the other process ends, or its method throws. */
  call<Result>(method: string, ...args: unknown[]): Promise<Result> {
    if (this.ended !== null) return Promise.reject(this.ended)
    const id = ++this.id
    const result = Promise.withResolvers<unknown>()
    this.waiting.set(id, result)
    this.send({ kind: 'call', id, method, args })
    return result.promise as Promise<Result>
  }

  notify(method: string, ...args: unknown[]): void {
    this.send({ kind: 'notification', method, args })
  }

  /** The other process does not read: what may be lost is not sent. */
  get isCongested(): boolean {
    return this.unsent >= maxUnsent
  }

  /** A port of the other process: all methods of the interface exist, and return promises. */
  port<Port extends object>(name: string): Port {
    const get = (_target: object, method: string | symbol) => {
      const path = `${name}.${String(method)}`
      return (...args: unknown[]) => this.call(path, ...args)
    }
    return new Proxy({}, { get }) as Port
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
    if (message.kind === 'notification') return void this.run(message.method, message.args)
    if (message.kind === 'call') return this.respond(message)
    const waiting = this.waiting.get(message.id)
    this.waiting.delete(message.id)
    if (message.kind === 'result') waiting?.resolve(message.value)
    else waiting?.reject(new Error(message.message))
  }

  /** `path`: `method` or `port.method`. */
  private run(path: string, args: unknown[]): unknown {
    const dot = path.indexOf('.')
    const target = dot < 0 ? this.methods : this.methods[path.slice(0, dot)]
    return (target as Record<string, Method>)[path.slice(dot + 1)]!(...args)
  }

  private async respond({ id, method, args }: Message & { kind: 'call' }): Promise<void> {
    try {
      this.send({ kind: 'result', id, value: await this.run(method, args) })
    } catch (error) {
      this.send({ kind: 'error', id, message: (error as Error).message })
    }
  }
}
