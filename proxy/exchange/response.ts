/** Responses to the caller, and which responses of suppliers OPD may read (CONTRACT 3, 4.6, 4.7). */
import type { HeadReason } from '../../opd/pricing/types.ts'
import type { Reply } from '../listen/types.ts'
import { type Encoding, encode } from './encoding.ts'
import { header, towardsCaller, without } from './headers.ts'

/** Why bidweir sends a no-bid of its own. */
export type NoBid = 'inactive' | 'qps' | 'unreadable' | 'overload' | 'timeout' | 'upstream_error'

/** With `onFailure: status`; every other reason is 204. */
const failureStatus: Readonly<Record<string, number>> = {
  overload: 503,
  timeout: 504,
  upstream_error: 502,
}

export function replyNoBid(reply: Reply, reason: NoBid, onFailure: 'no-bid' | 'status'): void {
  if (!reply.open) return
  const status = onFailure === 'status' ? (failureStatus[reason] ?? 204) : 204
  const headers = ['x-bidweir-reason', reason]
  if (status !== 204) headers.push('Content-Length', '0')
  reply.whole(status, '', headers, null)
}

/** The head as received; `headers` is a flat list of names and values. */
export interface ResponseHead {
  status: number
  message: string
  headers: string[]
}

export type ResponseBody =
  | { kind: 'unchanged'; body: Buffer }
  /** `body`: bytes, or latin1 text. `decoded`: it is sent without its content encoding. */
  | { kind: 'changed'; body: Buffer | string; decoded: boolean }

/** Sends a supplier's whole response to the caller. */
export function replyWhole(
  reply: Reply,
  { status, message, headers }: ResponseHead,
  response: ResponseBody,
  via: string | null,
): void {
  if (!reply.open) return
  const changed = response.kind === 'changed'
  const bodiless = status === 204 || status === 304
  let out = towardsCaller(headers, bodiless ? null : response.body.length, changed, via)
  if (changed && response.decoded) out = without(out, 'content-encoding')
  if (status === 204) out = without(out, 'content-length')
  reply.whole(status, message, out, bodiless ? null : response.body)
}

const json = /^((application|text)\/json|[^\s/]+\/[^\s/]+\+json)?$/i
const charset = /;\s*charset\s*=\s*["']?([^"';\s]*)/i
/** None, or any spelling of UTF-8. */
const utf8 = /^(utf[-_]?8)?$/i
const noTransform = /(^|[\s,])no-transform($|[\s,;])/i

/** The reasons of recent content types; a supplier uses one or two. Bounded. */
const typeReasons = new Map<string, HeadReason | null>()

function typeReason(contentType: string): HeadReason | null {
  let reason = typeReasons.get(contentType)
  if (reason === undefined) {
    const [type] = contentType.split(';', 1)
    if (!json.test(type!.trim())) reason = 'content_type'
    else reason = utf8.test(charset.exec(contentType)?.[1] ?? '') ? null : 'charset'
    if (typeReasons.size < 256 && contentType.length < 128) typeReasons.set(contentType, reason)
  }
  return reason
}

/** Why OPD may not read a 200 response with these headers (CONTRACT 4.7); null: it may. */
export function ineligibleReason(headers: readonly string[]): HeadReason | null {
  const contentType = header(headers, 'content-type')
  const reason = contentType === undefined ? null : typeReason(contentType)
  if (reason !== null) return reason
  const cacheControl = header(headers, 'cache-control')
  return cacheControl !== undefined && noTransform.test(cacheControl) ? 'no_transform' : null
}

/** A changed body in its original encoding, or decoded; a promise if it is encoded off the event loop. */
export function encodeChanged(
  body: Buffer | string,
  encoding: Encoding,
  recompress: 'same' | 'identity',
): ResponseBody | Promise<ResponseBody> {
  if (encoding === 'identity') return { kind: 'changed', body, decoded: false }
  if (recompress === 'identity') return { kind: 'changed', body, decoded: true }
  const encoded = encode(encoding, typeof body === 'string' ? Buffer.from(body, 'latin1') : body)
  return encoded instanceof Promise
    ? encoded.then((late): ResponseBody => ({ kind: 'changed', body: late, decoded: false }))
    : { kind: 'changed', body: encoded, decoded: false }
}
