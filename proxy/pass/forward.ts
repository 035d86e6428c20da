/**
 * One exchange of `/pass/<ssp>/…`, carried as it comes: path, fields and bodies byte for byte, hop-by-hop fields apart.
 * By node:http on both sides; http-proxy spells fields and paths anew, and a reason phrase with a control character
 * ends its process.
 */
import {
  type ClientRequest,
  type Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { foreignCoding, header, plainPhrase, towardsCaller, without } from '../exchange/headers.ts'

export interface Carriage {
  origin: URL
  /** The supplier's part of the path, with the query. */
  path: string
  /** Flat, as the origin gets them, without a length. */
  fields: string[]
  agents: { http: HttpAgent; https: HttpsAgent }
  /** The value of `Via` to add, or null. */
  via: string | null
  /** Milliseconds that the exchange may be silent. */
  silence: number
  onError: (error: Error) => void
  /** Whether this answer, given now, ends its connection. */
  ends: (response: ServerResponse) => boolean
}

const repeatable = new Set(['GET', 'HEAD', 'OPTIONS'])

export function carry(request: IncomingMessage, response: ServerResponse, way: Carriage): void {
  const { rawHeaders } = request
  const length = header(rawHeaders, 'content-length')
  const chunked = header(rawHeaders, 'transfer-encoding') !== undefined
  const bodiless = length === undefined && !chunked
  const framing = chunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', length ?? '0']
  const secure = way.origin.protocol === 'https:'
  const options = {
    hostname: way.origin.hostname.replace(/^\[|\]$/g, ''),
    port: way.origin.port,
    method: request.method,
    path: way.path,
    headers: bodiless ? way.fields : [...way.fields, ...framing],
    agent: secure ? way.agents.https : way.agents.http,
    maxHeaderSize: 64 * 1024,
  }
  let upstream: ClientRequest | null = null
  let got: IncomingMessage | null = null

  const give = (error: Error) => {
    way.onError(error)
    if (response.headersSent || response.destroyed) return void response.destroy()
    if (way.ends(response)) response.shouldKeepAlive = false
    response.writeHead(502, ['x-bidweir-reason', 'upstream_error', 'Content-Length', '0'])
    response.end()
  }
  const answered = (answer: IncomingMessage) => {
    got = answer
    const { statusCode = 0, statusMessage = '', httpVersionMajor } = answer
    if (httpVersionMajor !== 1) {
      answer.destroy()
      return give(new Error(`an answer of HTTP/${answer.httpVersion}`))
    }
    if (statusCode < 200 || statusCode > 999) return give(new Error(`a status of ${statusCode}`))
    const coding = foreignCoding(answer.rawHeaders, answer.httpVersion === '1.0')
    if (coding !== undefined) {
      answer.destroy()
      return give(new Error(`a transfer coding of ${coding}`))
    }
    answer.on('error', give)
    // A body cut short of its length: the caller sees a closed connection, not a whole answer.
    answer.on('aborted', () => response.destroy())
    if (way.ends(response)) response.shouldKeepAlive = false
    const fields = towardsCaller(answer.rawHeaders, null, false, way.via)
    // RFC 9110 8.6
    const kept = statusCode === 204 ? without(fields, 'content-length') : fields
    response.writeHead(statusCode, plainPhrase(statusMessage), kept)
    answer.pipe(response)
  }
  /** `again`: on a connection of its own, after a reused one was closed on us (RFC 9110 9.2.2). */
  const send = (again: boolean) => {
    const sent = (secure ? httpsRequest : httpRequest)(
      again ? { ...options, agent: false } : options,
    )
    upstream = sent
    // The size of the head is the bound; fields past a count would be dropped without a word.
    sent.maxHeadersCount = 0
    sent.once('response', answered)
    sent.setTimeout(way.silence, () => sent.destroy(new Error('silence')))
    sent.on('upgrade', (_answer, socket) => {
      socket.destroy()
      give(new Error('an upgrade that nobody asked for'))
    })
    sent.on('error', (error) => {
      // What comes behind a whole answer is not worth losing it for.
      if (got?.complete) return way.onError(error)
      const retry = !again && bodiless && sent.reusedSocket && repeatable.has(request.method ?? '')
      if (retry && !response.headersSent && !response.destroyed) send(true)
      else give(error)
    })
    if (bodiless) sent.end()
    else request.pipe(sent)
  }

  response.once('close', () => upstream?.destroy())
  request.on('error', way.onError)
  try {
    send(false)
  } catch (error) {
    give(error as Error)
  }
}
