/** The general lane's side of the caller: `node:http`, and the checks of a request's head that it leaves out. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { plainAddress } from '../../opd/base/client-address.ts'
import { occurrences } from '../../opd/base/pipelining.ts'
import { identityOfCaller } from '../admission/caller-certificate.ts'
import type { ProblemCode } from '../problem.ts'
import type { Body, Inbound, Reply } from '../types.ts'
import { isHost, unsupportedCoding } from '../wire/headers.ts'
import type { OutgoingResponse } from '../wire/outgoing-heads.ts'
import { isTls } from '../wire/socket-reads.ts'

/**
 * Why the head is refused (RFC 9112): its version, framing or host is not certain.
 *
 * @param request its head is read, its body need not be
 * @returns the problem to answer; null: the head is sound
 */
export function headFault(request: IncomingMessage): ProblemCode | null {
  const { httpVersionMajor, httpVersionMinor, rawHeaders } = request
  if (httpVersionMajor !== 1) return 'version'
  if (httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined) return 'version'
  if (unsupportedCoding(rawHeaders, false) !== undefined) return 'coding'
  const hosts = occurrences(rawHeaders, 'host')
  if (hosts > 1 || (hosts === 0 && httpVersionMinor >= 1)) return 'host'
  if (!isHost(request.headers.host ?? '')) return 'host'
  return null
}

/** node:http emits an upgrade with a body with a stream that is not a socket, which makes http-proxy end the process. */
export const hasBody = (headers: IncomingMessage['headers']) =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined

const absoluteForm = /^https?:\/\/[^/?#]*/i

/**
 * Path and query of a request target. A client of a proxy may send the absolute form (RFC 9112 3.2.2).
 *
 * @param target as on the request line, not decoded
 */
export function pathOf(target: string): string {
  return target.startsWith('/') ? target : target.replace(absoluteForm, '')
}

class HttpReply implements Reply {
  private readonly response: ServerResponse
  private readonly isLast: (response: ServerResponse) => boolean
  private awaitsDrain = false

  constructor(response: ServerResponse, isLast: (response: ServerResponse) => boolean) {
    this.response = response
    this.isLast = isLast
  }

  get open(): boolean {
    return !this.response.destroyed && !this.response.headersSent
  }

  sendWhole(head: OutgoingResponse, length: number | null, body: Body | null): void {
    this.head(head, length)
    if (body === null) this.response.end()
    else if (typeof body === 'string') this.response.end(body, 'latin1')
    else this.response.end(body)
  }

  start(head: OutgoingResponse, length: number | null): void {
    this.head(head, length)
    // The head is sent now, even if the body takes long. `flushHeaders` would write it as UTF-8.
    this.response.write('', 'latin1')
  }

  private head(head: OutgoingResponse, length: number | null): void {
    const { status, message } = head
    const headers = head.fieldsWith(length)
    // Checked now, not at the arrival of the request: a drain may have begun in between.
    if (this.isLast(this.response)) this.response.shouldKeepAlive = false
    if (message === '') this.response.writeHead(status, headers)
    else this.response.writeHead(status, message, headers)
  }

  write(chunk: Buffer): boolean {
    return this.response.write(chunk)
  }

  drained(resume: () => void): void {
    // Several chunks of one read may find the response full: one listener serves all.
    if (this.awaitsDrain) return
    this.awaitsDrain = true
    this.response.once('drain', () => {
      this.awaitsDrain = false
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

/**
 * `isLast`: whether the connection ends with this response.
 *
 * @param request a request of `node:http`; its arrival is the time of this call
 * @param response of the same request
 * @param query with its question mark; empty: there is none
 * @param isLast whether the connection ends with this response
 */
export function inboundOf(
  request: IncomingMessage,
  response: ServerResponse,
  query: string,
  isLast: (response: ServerResponse) => boolean,
): Inbound {
  return {
    head: {
      fields: request.rawHeaders,
      query,
      encoding: undefined,
      contentType: undefined,
      forwarded: null,
    },
    remote: plainAddress(request.socket.remoteAddress ?? ''),
    secure: isTls(request.socket),
    protocol: `HTTP/${request.httpVersion}`,
    identity: identityOfCaller(request.socket),
    arrived: performance.now(),
    reply: new HttpReply(response, isLast),
  }
}
