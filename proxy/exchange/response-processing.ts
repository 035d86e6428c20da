/** The phase `price`: whether OPD may read a response, and what is done with it: decode, rewrite, encode again (CONTRACT 4). */

import type { HeadReason } from '../../opd/shared/reasons.ts'
import type { Engine, Pause, RequestSource, RewrittenResponse } from '../../opd/types.ts'
import type { Admission } from '../admission/overload.ts'
import type { Supplier } from '../supplier.ts'
import type { ResponseHead } from '../types.ts'
import { header } from '../wire/headers.ts'
import { type BodyBuffer, withReservation } from './body-buffer.ts'
import { type Decoded, decodeLater, decodeNow, type Encoding, encode } from './encoding.ts'
import type { KeptGzip } from './kept-gzip.ts'
import type { ResponseBody } from './reply.ts'

export type ProcessingResult = ResponseBody | { kind: 'no_bid'; reason: 'unreadable' | 'inactive' }

interface BufferedResponse {
  supplier: Supplier
  head: ResponseHead
  /** As received, still encoded. `shared`: the bytes are valid only until the event loop continues. */
  body: Buffer
  shared: boolean
  /** Counts the decoded bytes. */
  buffer: BodyBuffer
  /** The decoded bid request; null: it is not readable. */
  request: RequestSource
  /** The exchange has ended without this response: processing stops, and its result is ignored. */
  isDone(): boolean
}

export interface ProcessingContext extends Pick<Admission, 'budget'> {
  engine: Engine
  limits: Admission['limits'] & { maxRewriteBytes: number }
  recompress: 'same' | 'identity'
  /** null: each message gets a zlib object of its own. */
  gzip: KeptGzip | null
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
function ineligibleReason(headers: readonly string[]): HeadReason | null {
  const contentType = header(headers, 'content-type')
  const reason = contentType === undefined ? null : typeReason(contentType)
  if (reason !== null) return reason
  const cacheControl = header(headers, 'cache-control')
  return cacheControl !== undefined && noTransform.test(cacheControl) ? 'no_transform' : null
}

/** Whether a response with this head is buffered and processed. */
export function needsProcessing(
  supplier: Supplier,
  { status, fields }: ResponseHead,
  engine: Engine,
): boolean {
  if (status < 200 || status >= 300 || status === 204) return false
  const reason = status === 200 ? ineligibleReason(fields) : null
  const reads = engine.readsResponses(supplier.id)
  if (reason !== null && reads) engine.countUnmodified(supplier.id, reason)
  // Bids of inactive seats are removed from any successful response, whatever its status and type.
  if (supplier.inactiveSeats.size > 0) return true
  if (status !== 200 || reason !== null) return false
  if (!reads) engine.countUnread(supplier.id)
  return reads
}

/** A promise only if the body is decoded or encoded off the event loop, or is long enough for several slices. */
export function processResponse(
  response: BufferedResponse,
  context: ProcessingContext,
): ProcessingResult | Promise<ProcessingResult> {
  const { head, body } = response
  const { maxRewriteBytes, maxHeldBytes } = context.limits
  const decoded = decodeNow(head.fields, body, maxRewriteBytes, context.gzip)
  if (decoded !== null) return rewrite(response, context, decoded)
  keep(response)
  const later = withReservation(context.budget, maxRewriteBytes, maxHeldBytes, () =>
    decodeLater(head.fields, response.body, maxRewriteBytes),
  )
  if (later === null) return undecoded(response, context, 'too_large')
  return later.then((late) =>
    response.isDone() ? asReceived(response) : rewrite(response, context, late),
  )
}

/** The bytes are copied if they are needed after this call. */
function keep(response: BufferedResponse): Buffer {
  if (response.shared) response.body = Buffer.from(response.body)
  response.shared = false
  return response.body
}

const asReceived = (response: BufferedResponse): ProcessingResult => ({
  kind: 'unchanged',
  body: keep(response),
})

function undecoded(
  response: BufferedResponse,
  { engine }: ProcessingContext,
  reason: 'encoding' | 'too_large',
): ProcessingResult {
  const { supplier } = response
  if (supplier.inactiveSeats.size > 0) return { kind: 'no_bid', reason: 'unreadable' }
  engine.countUnmodified(supplier.id, reason)
  return asReceived(response)
}

function rewrite(
  response: BufferedResponse,
  context: ProcessingContext,
  decoded: Decoded,
): ProcessingResult | Promise<ProcessingResult> {
  if (!decoded.ok) return undecoded(response, context, decoded.reason)
  const { supplier, head, request } = response
  const { body, encoding } = decoded
  const { maxHeldBytes } = context.limits
  if (body !== response.body && !response.buffer.reserve(body.length, maxHeldBytes))
    return undecoded(response, context, 'too_large')
  const slices = context.engine.rewriteInSlices({
    supplier: supplier.id,
    body,
    request,
    inactiveSeats: supplier.inactiveSeats,
    seatsOnly: head.status !== 200 || ineligibleReason(head.fields) !== null,
  })
  const first = slices.next()
  if (first.done) return rewritten(response, context, body, encoding, first.value)
  keep(response)
  return remainingSlices(slices, first.value, response.isDone).then((late) =>
    late === null ? asReceived(response) : rewritten(response, context, body, encoding, late),
  )
}

/** Runs the slices after the first one, with other work of the event loop between them. Null: the result is not needed. */
async function remainingSlices(
  slices: Iterator<Pause, RewrittenResponse>,
  first: Pause,
  isDone: () => boolean,
): Promise<RewrittenResponse | null> {
  for (let pending = first; ; ) {
    await (pending ?? new Promise<void>((resolve) => setImmediate(resolve)))
    if (isDone()) return null
    const slice = slices.next()
    if (slice.done) return slice.value
    pending = slice.value
  }
}

function rewritten(
  response: BufferedResponse,
  context: ProcessingContext,
  body: Buffer,
  encoding: Encoding,
  result: RewrittenResponse,
): ProcessingResult | Promise<ProcessingResult> {
  if (result.unreadable) return { kind: 'no_bid', reason: 'unreadable' }
  if (result.removed > 0 && result.left === 0) return { kind: 'no_bid', reason: 'inactive' }
  if (result.text === undefined && result.body === body) return asReceived(response)
  return encodeChanged(result.text ?? result.body, encoding, context)
}

/** A changed body in its original encoding, or decoded; a promise if it is encoded off the event loop. */
function encodeChanged(
  body: Buffer | string,
  encoding: Encoding,
  context: ProcessingContext,
): ResponseBody | Promise<ResponseBody> {
  if (encoding === 'identity') return { kind: 'changed', body, decoded: false }
  if (context.recompress === 'identity') return { kind: 'changed', body, decoded: true }
  const encoded = encode(encoding, body, context.gzip)
  return encoded instanceof Promise
    ? encoded.then((late): ResponseBody => ({ kind: 'changed', body: late, decoded: false }))
    : { kind: 'changed', body: encoded, decoded: false }
}
