/** An endpoint that answers bids and health checks, and that a script breaks and repairs. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export const faults = ['killed', 'hangs', 'resets', 'slow', 'answers 503', 'flaps'] as const
export type Fault = (typeof faults)[number]

const answer = '{"id":"r","seatbid":[{"bid":[{"id":"b","impid":"1","price":1}]}]}'

/** What a request meets. `slowMs`: milliseconds of an answer that is too late. */
const responses: Readonly<
  Record<string, (request: IncomingMessage, response: ServerResponse, slowMs: number) => void>
> = {
  none: (_request, response) => void response.end(answer),
  hangs: () => {},
  resets: (request) => void request.socket.resetAndDestroy(),
  slow: (_request, response, slowMs) => void setTimeout(() => response.end(answer), slowMs),
  'answers 503': (_request, response) => void response.writeHead(503).end(),
}

export class Endpoint implements AsyncDisposable {
  port = 0
  private fault: Fault | 'none' = 'none'
  private flapping: NodeJS.Timeout | null = null
  private readonly sockets = new Set<Socket>()
  private readonly server

  constructor(slowMs: number) {
    this.server = createServer((request, response) => {
      request.resume()
      request.on('end', () =>
        (responses[this.fault] ?? responses['none']!)(request, response, slowMs),
      )
    })
    this.server.keepAliveTimeout = 60_000
    this.server.on('connection', (socket) => {
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
    })
  }

  async listen(): Promise<this> {
    await once(this.server.listen(this.port, '127.0.0.1'), 'listening')
    this.port = (this.server.address() as AddressInfo).port
    return this
  }

  private kill(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private revive(): void {
    if (!this.server.listening) this.server.listen(this.port, '127.0.0.1')
  }

  /** @param flapEvery milliseconds of each state of an endpoint that flaps */
  begin(fault: Fault, flapEvery: number): void {
    this.fault = fault
    if (fault === 'killed' || fault === 'flaps') this.kill()
    if (fault === 'flaps')
      this.flapping = setInterval(
        () => (this.server.listening ? this.kill() : this.revive()),
        flapEvery,
      )
  }

  end(): void {
    if (this.flapping !== null) clearInterval(this.flapping)
    this.flapping = null
    this.fault = 'none'
    this.revive()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end()
    this.kill()
  }
}
