/**
 * Forwards one request of `/pass/<ssp>/…`: path, fields and bodies are unchanged, except for the fields of a single
 * connection. Both sides use node:http. http-proxy changes the spelling of fields and paths, and a reason phrase with a
 * control character ends its process.
 */
import {
  type ClientRequest,
  type Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import {
  header,
  plainPhrase,
  towardsCaller,
  unsupportedCoding,
  without,
} from '../exchange/headers.ts'

interface ForwardOptions {
  origin: URL
  /** The path after `/pass/<ssp>`, with the query. */
  path: string
  /** The header fields for the origin, as a flat list, without a length. */
  fields: string[]
  agents: { http: HttpAgent; https: HttpsAgent }
  /** The value of `Via` to add, or null. */
  via: string | null
  /** Milliseconds without any data after which the request fails. */
  silence: number
  onError: (error: Error) => void
  /** Whether the connection ends with this response. */
  isLast: (response: ServerResponse) => boolean
}

const repeatable = new Set(['GET', 'HEAD', 'OPTIONS'])

export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): void {
  const { rawHeaders } = request
  const length = header(rawHeaders, 'content-length')
  const chunked = header(rawHeaders, 'transfer-encoding') !== undefined
  const bodiless = length === undefined && !chunked
  const framing = chunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', length ?? '0']
  const secure = options.origin.protocol === 'https:'
  const target = {
    hostname: options.origin.hostname.replace(/^\[|\]$/g, ''),
    port: options.origin.port,
    method: request.method,
    path: options.path,
    headers: bodiless ? options.fields : [...options.fields, ...framing],
    agent: secure ? options.agents.https : options.agents.http,
    maxHeaderSize: 64 * 1024,
  }
  let upstream: ClientRequest | null = null
  let received: IncomingMessage | null = null

  const fail = (error: Error) => {
    options.onError(error)
    if (response.headersSent || response.destroyed) return void response.destroy()
    if (options.isLast(response)) response.shouldKeepAlive = false
    response.writeHead(502, ['x-bidweir-reason', 'upstream_error', 'Content-Length', '0'])
    response.end()
  }
  const onResponse = (upstreamResponse: IncomingMessage) => {
    received = upstreamResponse
    const { statusCode = 0, statusMessage = '', httpVersionMajor } = upstreamResponse
    if (httpVersionMajor !== 1) {
      upstreamResponse.destroy()
      return fail(new Error(`a response of HTTP/${upstreamResponse.httpVersion}`))
    }
    if (statusCode < 200 || statusCode > 999) return fail(new Error(`a status of ${statusCode}`))
    const coding = unsupportedCoding(
      upstreamResponse.rawHeaders,
      upstreamResponse.httpVersion === '1.0',
    )
    if (coding !== undefined) {
      upstreamResponse.destroy()
      return fail(new Error(`a transfer coding of ${coding}`))
    }
    upstreamResponse.on('error', fail)
    // The body was cut short: the connection is closed, so that the caller does not take the response for complete.
    upstreamResponse.on('aborted', () => response.destroy())
    // An early response: the rest of the request is not wanted, and its connection cannot be used again.
    upstreamResponse.once('end', () => {
      if (upstream?.writableFinished === false) upstream.destroy()
    })
    if (options.isLast(response)) response.shouldKeepAlive = false
    const fields = towardsCaller(upstreamResponse.rawHeaders, undefined, options.via)
    // RFC 9110 8.6
    const headers = statusCode === 204 ? without(fields, 'content-length') : fields
    response.writeHead(statusCode, plainPhrase(statusMessage), headers)
    upstreamResponse.pipe(response)
  }
  /** `fresh`: a retry on a new connection, because a reused one was closed (RFC 9110 9.2.2). */
  const send = (fresh: boolean) => {
    const attempt = (secure ? httpsRequest : httpRequest)(
      fresh ? { ...target, agent: false } : target,
    )
    upstream = attempt
    // The size of the head is the limit. With a limit of their count, node:http would silently drop header fields.
    attempt.maxHeadersCount = 0
    attempt.once('response', onResponse)
    attempt.setTimeout(options.silence, () => attempt.destroy(new Error('silence')))
    attempt.on('upgrade', (_response, socket) => {
      socket.destroy()
      fail(new Error('an upgrade that was not requested'))
    })
    attempt.on('error', (error) => {
      // An error after the complete response does not affect it.
      if (received?.complete) return options.onError(error)
      const retry =
        !fresh && bodiless && attempt.reusedSocket && repeatable.has(request.method ?? '')
      if (retry && !response.headersSent && !response.destroyed) send(true)
      else fail(error)
    })
    if (bodiless) return void attempt.end()
    request.pipe(attempt)
    // The rest of a body that nobody reads would hold up the requests behind it.
    attempt.once('close', () => request.unpipe(attempt).resume())
  }

  response.once('close', () => upstream?.destroy())
  request.on('error', options.onError)
  try {
    send(false)
  } catch (error) {
    fail(error as Error)
  }
}
