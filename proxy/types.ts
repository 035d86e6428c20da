/** The interfaces between an exchange and the two lanes: the same for raw sockets, `node:http` and undici. */
import type { Body } from '../opd/json/scanner.ts'
import type { OpenRtbFormat } from '../opd/types.ts'
import type { CallerIdentity } from './admission/caller-certificate.ts'
import type { CommonFields, OutgoingRequest, OutgoingResponse } from './wire/outgoing-heads.ts'

export type { Body }

/**
 * The body as bytes. A latin1 text is copied.
 *
 * @param body bytes, or text with one character a byte (latin1)
 */
export const bytesOf = (body: Body): Buffer =>
  typeof body === 'string' ? Buffer.from(body, 'latin1') : body

/**
 * What a Content-Type says of a bid request or a bid response. `unnamed`: absent, and `octets`: application/octet-stream, are
 * what `openrtb` of the supplier says.
 */
export type ContentType = OpenRtbFormat | 'unnamed' | 'octets' | 'content_type' | 'charset'

/** The head of a bid request. The fast lane keeps it while the caller repeats it, but for the value of Content-Length. */
export interface BidHead {
  /** A flat list of names and values, as received. */
  fields: readonly string[]
  /** `?…` with the question mark, or empty. */
  query: string
  /** The encoding of the body; null: not readable; undefined: not looked at yet. */
  encoding: 'identity' | 'gzip' | null | undefined
  /** undefined: not looked at yet. */
  contentType: ContentType | undefined
  /** The fields that are sent to suppliers for this head, and the head that was last sent. */
  forwarded: ForwardedFields | null
}

/** Fields for any supplier, and what they depend on besides the caller's fields and connection. */
export interface ForwardedFields {
  fields: CommonFields
  trusted: boolean
  via: string | null
  last: ForwardedHead | null
}

/** A head for an endpoint. */
interface ForwardedHead {
  head: OutgoingRequest
  endpoint: unknown
  rules: unknown
  query: string
}

/** A bid request whose head has arrived. */
export interface Inbound {
  head: BidHead
  remote: string
  secure: boolean
  /** `HTTP/1.1`, as access logs have it. */
  protocol: string
  /** Whom the certificate of the caller names; null: it has none. */
  identity: CallerIdentity | null
  /** `performance.now()` at the arrival of the head. */
  arrived: number
  reply: Reply
}

/** What the request to the supplier is made of, besides its body. */
export type Forwarded = Pick<Inbound, 'head' | 'remote' | 'secure'>

/** The response to the caller. No method is called after `sendWhole`, `end` or `destroy`. */
export interface Reply {
  /** The caller is connected, and its response has not started. */
  readonly open: boolean
  /**
   * Sends a whole response.
   *
   * @param length the bytes of `body`; without a body the Content-Length that is sent, null: none
   * @param body not changed afterwards; null: a response without one, such as 204 or 304
   */
  sendWhole(head: OutgoingResponse, length: number | null, body: Body | null): void
  /**
   * Starts a response whose body is streamed. Its head is sent at once.
   *
   * @param length the Content-Length; null: the length is not known
   */
  start(head: OutgoingResponse, length: number | null): void
  /**
   * False: the chunk is accepted, and the next one waits for `drained`.
   *
   * @param chunk of the body; not changed afterwards
   */
  write(chunk: Buffer): boolean
  /** @param resume called once, when what was written is sent; ignored while another one waits */
  drained(resume: () => void): void
  end(): void
  /** The response cannot be completed: the connection is closed, so that the caller does not take it for complete. */
  destroy(): void
}

/** A request that was sent to an endpoint. `abort` cancels it; its sink is not called afterwards. */
export interface UpstreamRequest {
  abort(): void
}

/** The head of a supplier's response. The fast lane keeps it while suppliers repeat it, but for its Content-Length. */
export interface ResponseHead {
  readonly status: number
  readonly message: string
  /** A flat list of names and values, as received; the value of Content-Length may be that of another response. */
  readonly fields: readonly string[]
  /** What was sent to callers for this head, for each set of fields that are dropped. */
  readonly replies: ReplyHead[]
}

/** A head for callers, and what it depends on besides the supplier's head. */
interface ReplyHead {
  head: OutgoingResponse
  dropped: ReadonlySet<string>
  via: string | null
}

/** Receives the response of an endpoint, in this order. Nothing follows `end` or `fail`. */
export interface ResponseSink {
  /**
   * @param head may be that of an earlier response, of another endpoint too: a sink changes nothing but its `replies`
   * @param length the value of Content-Length; null: there is none
   */
  head(head: ResponseHead, length: number | null): void
  /**
   * False: the connection pauses until `resume` is called.
   *
   * @param chunk bytes of the body, which the sink may keep
   * @param resume may also be called by a sink that did not pause
   */
  data(chunk: Buffer, resume: () => void): boolean
  /** @param now `performance.now()` */
  end(now: number): void
  /**
   * In place of `data` and `end`, for a body that arrived whole in one read. A sink without this method gets it as `data`.
   *
   * @param body its bytes are valid only during the call
   * @param now `performance.now()`
   */
  takeBody?(body: Buffer, now: number): void
  /**
   * In place of what has not arrived, at any time after `dispatch`.
   *
   * @param failure why, and whether the request may be sent once more
   */
  fail(failure: SendFailure): void
}

export interface SendFailure {
  /**
   * `unsent`: no byte was written. `reused`: a reused connection closed before the first byte of the response.
   * Both may be sent once more. `broken`: any other failure; the request is not repeated.
   */
  kind: 'unsent' | 'reused' | 'broken'
  error: Error
}
