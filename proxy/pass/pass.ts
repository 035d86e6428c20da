/**
 * `/pass/<ssp>/…`: other requests for a supplier's host (cookie syncs, pixels, WebSocket upgrades), never rewritten. Path,
 * fields and bodies are unchanged, except for the fields of a single connection. Both sides use node:http. http-proxy, which
 * carries upgrades, changes the spelling of fields and paths, and a reason phrase with a control character ends its process.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
  type ServerResponse,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { plainAddress } from '../../opd/base/client-address.ts'
import {
  header,
  plainPhrase,
  towardsCaller,
  towardsSupplier,
  unsupportedCoding,
  without,
} from '../wire/headers.ts'
import { isTls } from '../wire/socket-reads.ts'
import { createUpgrades, type PassTarget, silence } from './upgrade.ts'

interface PassOptions {
  trusted: (remote: string) => boolean
  /** The value of `Via` to add, or null. */
  via: () => string | null
  onError: (error: Error) => void
}

interface PassedOptions extends PassOptions {
  /** Whether the connection ends with this response. */
  isLast: (response: ServerResponse) => boolean
}

const repeatable = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Why a response of the origin is not forwarded; null: it is. */
function faultOf(response: IncomingMessage): string | null {
  const { statusCode = 0, httpVersionMajor, httpVersion, rawHeaders } = response
  if (httpVersionMajor !== 1) return `a response of HTTP/${httpVersion}`
  if (statusCode < 200 || statusCode > 999) return `a status of ${statusCode}`
  const coding = unsupportedCoding(rawHeaders, httpVersion === '1.0')
  return coding === undefined ? null : `a transfer coding of ${coding}`
}

/** Forwards `/pass/…` and upgrades as they are. */
export class PassThrough {
  private readonly options: PassOptions
  private readonly upgrades: ReturnType<typeof createUpgrades>
  private readonly agents = {
    http: new HttpAgent({ keepAlive: true, maxSockets: 256 }),
    https: new HttpsAgent({ keepAlive: true, maxSockets: 256 }),
  }

  constructor(options: PassOptions) {
    this.options = options
    this.upgrades = createUpgrades(options.onError)
  }

  /**
   * Forwards a WebSocket upgrade.
   *
   * @param socket of the caller, with a listener of its errors; destroyed if the origin does not respond
   * @param head bytes that arrived behind the head of the request
   * @param target an origin such as `https://host:port`, and the path there with its query
   */
  upgrade(request: IncomingMessage, socket: Socket, head: Buffer, target: PassTarget): void {
    const fields = this.fieldsOf(request, new URL(target.origin).host)
    this.upgrades.upgrade(request, socket, head, target, fields)
  }

  /** Upgraded connections do not end by themselves: a drain closes them. */
  closeUpgraded(): void {
    this.upgrades.closeAll()
  }

  close(): void {
    for (const agent of Object.values(this.agents)) agent.destroy()
    this.upgrades.close()
  }

  /** The caller's header fields in the form for the origin, without a length. */
  private fieldsOf(request: IncomingMessage, host: string): string[] {
    const { rawHeaders } = request
    const remote = plainAddress(request.socket.remoteAddress ?? '')
    const fields = towardsSupplier(rawHeaders, {
      remote,
      trusted: this.options.trusted(remote),
      proto: isTls(request.socket) ? 'https' : 'http',
      host: header(rawHeaders, 'host') ?? '',
      via: this.options.via(),
    })
    return ['Host', host, ...fields]
  }

  /** The request to the origin, and whether it has no body. */
  private outgoing(request: IncomingMessage, { origin, path }: PassTarget): Outgoing {
    const { protocol, host, hostname, port } = new URL(origin)
    const { method, rawHeaders } = request
    const fields = this.fieldsOf(request, host)
    const length = header(rawHeaders, 'content-length')
    const chunked = header(rawHeaders, 'transfer-encoding') !== undefined
    const bodiless = length === undefined && !chunked
    const framing = chunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', length ?? '0']
    const secure = protocol === 'https:'
    const options = {
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      method,
      path,
      headers: bodiless ? fields : [...fields, ...framing],
      agent: secure ? this.agents.https : this.agents.http,
      maxHeaderSize: 64 * 1024,
    }
    return { open: secure ? httpsRequest : httpRequest, options, bodiless }
  }

  /**
   * Forwards a request and its body.
   *
   * @param target an origin such as `https://host:port`, and the path there with its query
   * @param isLast whether the connection ends with this response
   */
  web(
    request: IncomingMessage,
    response: ServerResponse,
    target: PassTarget,
    isLast: (response: ServerResponse) => boolean,
  ): void {
    new PassedRequest(request, response, this.outgoing(request, target), {
      ...this.options,
      isLast,
    }).send(false)
  }
}

interface Outgoing {
  open: typeof httpRequest
  options: RequestOptions
  bodiless: boolean
}

/** A request that is forwarded, and its response. */
class PassedRequest {
  private readonly request: IncomingMessage
  private readonly response: ServerResponse
  private readonly outgoing: Outgoing
  private readonly options: PassedOptions
  private upstream: ClientRequest | null = null
  private received: IncomingMessage | null = null

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    outgoing: Outgoing,
    options: PassedOptions,
  ) {
    this.request = request
    this.response = response
    this.outgoing = outgoing
    this.options = options
    response.once('close', () => this.upstream?.destroy())
    request.on('error', options.onError)
  }

  /** `fresh`: a retry on a new connection, because a reused one was closed (RFC 9110 9.2.2). */
  send(fresh: boolean): void {
    try {
      this.attempt(fresh)
    } catch (error) {
      this.fail(error as Error)
    }
  }

  private attempt(fresh: boolean): void {
    const { request, response } = this
    const { open, options, bodiless } = this.outgoing
    const attempt = open(fresh ? { ...options, agent: false } : options)
    this.upstream = attempt
    // The size of the head is the limit. With a limit of their count, node:http would silently drop header fields.
    attempt.maxHeadersCount = 0
    attempt.once('response', (received) => this.forwardResponse(received))
    attempt.setTimeout(silence, () => attempt.destroy(new Error('silence')))
    attempt.on('upgrade', (_response, socket) => {
      socket.destroy()
      this.fail(new Error('an upgrade that was not requested'))
    })
    attempt.on('error', (error) => {
      // An error after the complete response does not affect it.
      if (this.received?.complete) return this.options.onError(error)
      const retry =
        !fresh && bodiless && attempt.reusedSocket && repeatable.has(request.method ?? '')
      if (retry && !response.headersSent && !response.destroyed) this.send(true)
      else this.fail(error)
    })
    if (bodiless) return void attempt.end()
    request.pipe(attempt)
    // The rest of a body that nobody reads would hold up the requests behind it.
    attempt.once('close', () => request.unpipe(attempt).resume())
  }

  private forwardResponse(received: IncomingMessage): void {
    const { response } = this
    const { via, isLast } = this.options
    this.received = received
    const { statusCode = 0, statusMessage = '', rawHeaders } = received
    const fault = faultOf(received)
    if (fault !== null) {
      received.destroy()
      return this.fail(new Error(fault))
    }
    received.on('error', (error) => this.fail(error))
    // The body was cut short: the connection is closed, so that the caller does not take the response for complete.
    received.on('aborted', () => response.destroy())
    // An early response: the rest of the request is not wanted, and its connection cannot be used again.
    received.once('end', () => {
      if (this.upstream?.writableFinished === false) this.upstream.destroy()
    })
    if (isLast(response)) response.shouldKeepAlive = false
    const fields = towardsCaller(rawHeaders, undefined, via())
    // RFC 9110 8.6
    const headers = statusCode === 204 ? without(fields, 'content-length') : fields
    response.writeHead(statusCode, plainPhrase(statusMessage), headers)
    received.pipe(response)
  }

  private fail(error: Error): void {
    const { response } = this
    const { onError, isLast } = this.options
    onError(error)
    if (response.headersSent || response.destroyed) return void response.destroy()
    if (isLast(response)) response.shouldKeepAlive = false
    response.writeHead(502, ['x-bidweir-reason', 'upstream_error', 'Content-Length', '0'])
    response.end()
  }
}
