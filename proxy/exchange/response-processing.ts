/** The phase `price`: whether OPD may read a response, and what is done with it: decode, rewrite, encode again (CONTRACT 4). */

import type { GzipEncoder } from '../../opd/base/gzip-encoder.ts'
import { shortDocument } from '../../opd/json/scanner.ts'
import type { HeadReason } from '../../opd/shared/reasons.ts'
import type { OpenRtbFormat, Pause, RequestSource, RewrittenResponse } from '../../opd/types.ts'
import type { Admission } from '../admission/overload.ts'
import type { Supplier } from '../supplier.ts'
import type { ResponseHead } from '../types.ts'
import { header } from '../wire/headers.ts'
import type { BodyBuffer } from './body-buffer.ts'
import {
  type Decoded,
  type DecodedBody,
  decodeLater,
  decodeNow,
  type Encoding,
  encode,
  responseFormat,
} from './encoding.ts'
import type { KeptGunzip } from './kept-gunzip.ts'
import { type LongResponses, ResponseMemory, responseShare } from './long-responses.ts'
import type { ResponseBody } from './reply.ts'
import type { ResponseBatch } from './response-batch.ts'

/** A changed body that is not encoded yet as the response was. */
interface Unencoded {
  kind: 'unencoded'
  body: Buffer | string
  encoding: Exclude<Encoding, 'identity'>
}

export type EncodedResult = ResponseBody | { kind: 'no_bid'; reason: 'unreadable' | 'inactive' }

export type ProcessingResult = EncodedResult | Unencoded

export interface BufferedResponse {
  supplier: Supplier
  head: ResponseHead
  /** As received, still encoded; until `ownBytes` has copied it, valid only until the event loop continues. */
  body: Buffer
  /** null: it is decoded off the event loop. */
  decoded: Decoded | null
  /** Counts the decoded bytes. */
  buffer: BodyBuffer
  /** The decoded bid request; null: it is not readable. */
  request: RequestSource
  requestFormat: OpenRtbFormat
  /** The exchange has ended without this response: processing stops, and its result is ignored. */
  isDone(): boolean
}

export interface ProcessingContext extends Pick<Admission, 'budget'> {
  limits: Admission['limits'] & { maxRewriteBytes: number }
  recompress: 'same' | 'identity'
  batch: ResponseBatch
  long: LongResponses
  /** null: each message is decoded with a zlib object of its own. */
  gunzip: KeptGunzip | null
  gzip: GzipEncoder
}

const noTransform = /(^|[\s,])no-transform($|[\s,;])/i

/** Why OPD may not read a 200 response with these headers (CONTRACT 4.7); null: it may. */
function ineligibleReason(headers: readonly string[], openrtb: OpenRtbFormat): HeadReason | null {
  const format = responseFormat(headers, openrtb)
  if (format !== 'json' && format !== 'protobuf') return format
  const cacheControl = header(headers, 'cache-control')
  return cacheControl !== undefined && noTransform.test(cacheControl) ? 'no_transform' : null
}

/** Whether a response with this head is buffered and processed. */
export function needsProcessing(supplier: Supplier, { status, fields }: ResponseHead): boolean {
  if (status < 200 || status >= 300 || status === 204) return false
  const reason = status === 200 ? ineligibleReason(fields, supplier.settings.openrtb) : null
  const { responses } = supplier
  const { reads } = responses
  if (reason !== null && reads) responses.countUnmodified(reason)
  // Bids of inactive seats are removed from any successful response, whatever its status and type.
  if (supplier.inactiveSeats.size > 0) return true
  if (status !== 200 || reason !== null) return false
  if (!reads) responses.countUnread()
  return reads
}

/** Decodes a response, if that is certainly fast. */
export const decodeResponse = (
  { fields }: ResponseHead,
  body: Buffer,
  { limits, gunzip }: ProcessingContext,
): Decoded | null => decodeNow(fields, body, limits.maxRewriteBytes, gunzip)

/** A promise only if the body is decoded off the event loop, or is long enough for several slices. */
export function processResponse(
  response: BufferedResponse,
  context: ProcessingContext,
): ProcessingResult | Promise<ProcessingResult> {
  const { decoded } = response
  if (decoded?.ok === false) return undecoded(response, context, decoded.reason)
  if (decoded !== null && decoded.body.length <= shortDocument)
    return rewriteShort(response, context, decoded)
  response.body = context.batch.ownBytes(response.body)
  const turn = context.long.enter(response.supplier.id)
  if (turn === 'full') return undecoded(response, context, 'too_large')
  return processLong(response, context, decoded, turn).finally(() => context.long.leave())
}

/** Decodes and rewrites a long response. `decoded` null: it is not decoded yet. */
async function processLong(
  response: BufferedResponse,
  context: ProcessingContext,
  decoded: DecodedBody | null,
  turn: Promise<void> | null,
): Promise<ProcessingResult> {
  const memory = new ResponseMemory(context.budget, context.limits)
  try {
    // The bytes as received, too: the exchange may end before the work.
    const isDecoded = decoded !== null && decoded.body !== response.body
    const fits = memory.reserve(response.body.length + (isDecoded ? decoded.body.length : 0))
    await turn
    if (response.isDone()) return asReceived(response, context)
    if (!fits) return undecoded(response, context, 'too_large')
    const body = decoded ?? (await decodeLong(response, context, memory))
    if (!body.ok) return undecoded(response, context, body.reason)
    const slices = startRewrite(response, body, memory)
    const result = await remainingSlices(slices, undefined, response.isDone)
    if (result === null) return asReceived(response, context)
    return rewritten(response, context, body, result)
  } finally {
    memory.release()
  }
}

async function decodeLong(
  { head, body }: BufferedResponse,
  { limits: { maxRewriteBytes } }: ProcessingContext,
  memory: ResponseMemory,
): Promise<Decoded> {
  if (!memory.reserve(maxRewriteBytes)) return { ok: false, reason: 'too_large' }
  const decoded = await decodeLater(head.fields, body, maxRewriteBytes)
  memory.free(maxRewriteBytes - (decoded.ok ? decoded.body.length : 0))
  return decoded
}

const asReceived = (
  { body }: BufferedResponse,
  { batch }: ProcessingContext,
): ProcessingResult => ({ kind: 'unchanged', body: batch.ownBytes(body) })

function undecoded(
  response: BufferedResponse,
  context: ProcessingContext,
  reason: 'encoding' | 'too_large',
): ProcessingResult {
  const { supplier } = response
  if (supplier.inactiveSeats.size > 0) return { kind: 'no_bid', reason: 'unreadable' }
  supplier.responses.countUnmodified(reason)
  return asReceived(response, context)
}

function rewriteShort(
  response: BufferedResponse,
  context: ProcessingContext,
  decoded: DecodedBody,
): ProcessingResult | Promise<ProcessingResult> {
  const isDecoded = decoded.body !== response.body
  if (isDecoded && !response.buffer.reserve(decoded.body.length, responseShare(context.limits)))
    return undecoded(response, context, 'too_large')
  const memory = new ResponseMemory(context.budget, context.limits)
  const slices = startRewrite(response, decoded, memory)
  const first = slices.next()
  if (first.done) {
    // A long request is read with memory of its own.
    memory.release()
    return rewritten(response, context, decoded, first.value)
  }
  response.body = context.batch.ownBytes(response.body)
  return remainingSlices(slices, first.value, response.isDone)
    .then((late) =>
      late === null ? asReceived(response, context) : rewritten(response, context, decoded, late),
    )
    .finally(() => memory.release())
}

function startRewrite(
  { supplier, head, request, requestFormat }: BufferedResponse,
  { body }: DecodedBody,
  memory: ResponseMemory,
): Iterator<Pause, RewrittenResponse> {
  const { openrtb } = supplier.settings
  return supplier.responses.rewriteInSlices({
    body,
    format: responseFormat(head.fields, openrtb) === 'protobuf' ? 'protobuf' : 'json',
    request,
    requestFormat,
    inactiveSeats: supplier.inactiveSeats,
    memory,
    seatsOnly: head.status !== 200 || ineligibleReason(head.fields, openrtb) !== null,
  })
}

/** Runs the slices that are left, with other work of the event loop between them. Null: the result is not needed. */
async function remainingSlices(
  slices: Iterator<Pause, RewrittenResponse>,
  first: Pause,
  isDone: () => boolean,
): Promise<RewrittenResponse | null> {
  for (let pending = first; ; ) {
    await (pending ?? new Promise<void>((resolve) => setImmediate(resolve)))
    if (isDone()) {
      slices.return?.()
      return null
    }
    const slice = slices.next()
    if (slice.done) return slice.value
    pending = slice.value
  }
}

function rewritten(
  response: BufferedResponse,
  context: ProcessingContext,
  { body, encoding }: DecodedBody,
  result: RewrittenResponse,
): ProcessingResult {
  if (result.unreadable) return { kind: 'no_bid', reason: 'unreadable' }
  if (result.removed > 0 && result.left === 0) return { kind: 'no_bid', reason: 'inactive' }
  if (result.text === undefined && result.body === body) return asReceived(response, context)
  const changed = result.text ?? result.body
  return encoding === 'identity' || context.recompress === 'identity'
    ? { kind: 'changed', body: changed, decoded: encoding !== 'identity' }
    : { kind: 'unencoded', body: changed, encoding }
}

/** The body in its original encoding, or decoded if there is no memory to encode it; a promise if that is done off the event loop. */
export function encodeResponse(
  { body, encoding }: Unencoded,
  { budget, limits, gzip }: ProcessingContext,
): ResponseBody | Promise<ResponseBody> {
  const memory = new ResponseMemory(budget, limits)
  if (body.length > shortDocument && !memory.reserve(body.length))
    return { kind: 'changed', body, decoded: true }
  const changed = (bytes: Buffer): ResponseBody => ({
    kind: 'changed',
    body: bytes,
    decoded: false,
  })
  const encoded = encode(encoding, body, gzip)
  if (encoded instanceof Promise) return encoded.then(changed).finally(() => memory.release())
  memory.release()
  return changed(encoded)
}
