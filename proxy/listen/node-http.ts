/** The general lane's side of the caller: node:http, complete and careful. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { plainAddress } from '../callers.ts'
import type { Inbound, Reply } from './types.ts'

class HttpReply implements Reply {
  private readonly response: ServerResponse
  private readonly ends: (response: ServerResponse) => boolean
  private waits = false

  constructor(response: ServerResponse, ends: (response: ServerResponse) => boolean) {
    this.response = response
    this.ends = ends
  }

  get open(): boolean {
    return !this.response.destroyed && !this.response.headersSent
  }

  whole(status: number, message: string, headers: string[], body: Buffer | null): void {
    this.head(status, message, headers)
    if (body === null) this.response.end()
    else this.response.end(body)
  }

  start(status: number, message: string, headers: string[]): void {
    this.head(status, message, headers)
    // The body may be long in coming: the head leaves in this turn of the loop. `flushHeaders` would write it as UTF-8.
    this.response.write('', 'latin1')
  }

  private head(status: number, message: string, headers: string[]): void {
    // Asked now, not when the request came: a drain may have begun in between.
    if (this.ends(this.response)) this.response.shouldKeepAlive = false
    if (message === '') this.response.writeHead(status, headers)
    else this.response.writeHead(status, message, headers)
  }

  write(chunk: Buffer): boolean {
    return this.response.write(chunk)
  }

  drained(resume: () => void): void {
    // Many pieces of one read may find it full: one listener for all.
    if (this.waits) return
    this.waits = true
    this.response.once('drain', () => {
      this.waits = false
      resume()
    })
  }

  end(): void {
    this.response.end()
  }

  destroy(): void {
    this.response.destroy()
  }
}

/** `ends`: whether the connection ends with this answer. */
export function inboundOf(
  request: IncomingMessage,
  response: ServerResponse,
  query: string,
  ends: (response: ServerResponse) => boolean,
): Inbound {
  return {
    headers: request.rawHeaders,
    query,
    remote: plainAddress(request.socket.remoteAddress ?? ''),
    secure: (request.socket as TLSSocket).encrypted === true,
    arrived: performance.now(),
    reply: new HttpReply(response, ends),
  }
}
