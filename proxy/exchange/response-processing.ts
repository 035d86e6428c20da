/** The phase `price`: whether OPD may read a response, and what is done with it: decode, rewrite, encode again (CONTRACT 4). */

import { shortDocument } from '../../opd/json/scanner.ts'
import type { HeadReason } from '../../opd/shared/reasons.ts'
import type {
  Engine,
  OpenRtbFormat,
  Pause,
  RequestSource,
  RewrittenResponse,
} from '../../opd/types.ts'
import type { Admission } from '../admission/overload.ts'
import type { Supplier } from '../supplier.ts'
import type { ResponseHead } from '../types.ts'
import { writeRequests } from '../upstream/fast-client.ts'
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
import type { KeptGzip } from './kept-gzip.ts'
import { type LongResponses, ResponseMemory, responseShare } from './long-responses.ts'
import type { ResponseBody } from './reply.ts'

/**
 * Responses that arrive whole in one turn of the event loop are priced one after another, once the sockets are read, and sent
 * when all are priced. The code and data of pricing then stay in the caches of the processor. If each response was sent before
 * the next is priced, sockets and kernel would displace them, and a bid would take a quarter more CPU time.
 */

interface Waiting {
  /** `body` is valid only during the call. */
  price(body: Buffer, shared: true): void
  /** Sends the result of `price`, if there is one already. */
  sendPriced(): void
}

/** Bounds of a batch: it is priced in less than a millisecond, unless it has one long response. */
const maxResponses = 32
const maxBytes = 256 * 1024

const bytes = Buffer.allocUnsafeSlow(maxBytes)
const exchanges: Waiting[] = []
const bodies: Buffer[] = []
let used = 0
let isScheduled = false

/** Copies `body`, and prices it before the event loop waits for other events. */
export function priceSoon(exchange: Waiting, body: Buffer): void {
  const to = used + body.length
  if (to > maxBytes) {
    exchange.price(body, true)
    return exchange.sendPriced()
  }
  bytes.set(body, used)
  exchanges.push(exchange)
  bodies.push(bytes.subarray(used, to))
  used = to
  if (exchanges.length === maxResponses) return priceAll()
  if (isScheduled) return
  isScheduled = true
  setImmediate(priceScheduled)
}

function priceScheduled(): void {
  isScheduled = false
  priceAll()
}

function priceAll(): void {
  // First, so that the suppliers work on them while these responses are priced.
  writeRequests()
  // Neither loop reads from a socket, so neither list grows.
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.price(bodies[at]!, true)
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.sendPriced()
  exchanges.length = 0
  bodies.length = 0
  used = 0
}

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
  requestFormat: OpenRtbFormat
  /** The exchange has ended without this response: processing stops, and its result is ignored. */
  isDone(): boolean
}

export interface ProcessingContext extends Pick<Admission, 'budget'> {
  engine: Engine
  limits: Admission['limits'] & { maxRewriteBytes: number }
  recompress: 'same' | 'identity'
  long: LongResponses
  /** null: each message gets a zlib object of its own. */
  gzip: KeptGzip | null
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
export function needsProcessing(
  supplier: Supplier,
  { status, fields }: ResponseHead,
  engine: Engine,
): boolean {
  if (status < 200 || status >= 300 || status === 204) return false
  const reason = status === 200 ? ineligibleReason(fields, supplier.route.openrtb) : null
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
  const decoded = decodeNow(head.fields, body, context.limits.maxRewriteBytes, context.gzip)
  if (decoded?.ok === false) return undecoded(response, context, decoded.reason)
  if (decoded !== null && decoded.body.length <= shortDocument)
    return rewriteShort(response, context, decoded)
  keep(response)
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
    if (response.isDone()) return asReceived(response)
    if (!fits) return undecoded(response, context, 'too_large')
    const body = decoded ?? (await decodeLong(response, context, memory))
    if (!body.ok) return undecoded(response, context, body.reason)
    const slices = startRewrite(response, context, body, memory)
    const result = await remainingSlices(slices, undefined, response.isDone)
    if (result === null) return asReceived(response)
    return await rewritten(response, context, body, result, memory)
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

function rewriteShort(
  response: BufferedResponse,
  context: ProcessingContext,
  decoded: DecodedBody,
): ProcessingResult | Promise<ProcessingResult> {
  const isDecoded = decoded.body !== response.body
  if (isDecoded && !response.buffer.reserve(decoded.body.length, responseShare(context.limits)))
    return undecoded(response, context, 'too_large')
  const memory = new ResponseMemory(context.budget, context.limits)
  const slices = startRewrite(response, context, decoded, memory)
  const first = slices.next()
  if (first.done) return rewritten(response, context, decoded, first.value, memory)
  keep(response)
  return remainingSlices(slices, first.value, response.isDone)
    .then((late) =>
      late === null ? asReceived(response) : rewritten(response, context, decoded, late, memory),
    )
    .finally(() => memory.release())
}

function startRewrite(
  { supplier, head, request, requestFormat }: BufferedResponse,
  { engine }: ProcessingContext,
  { body }: DecodedBody,
  memory: ResponseMemory,
): Iterator<Pause, RewrittenResponse> {
  const { openrtb } = supplier.route
  return engine.rewriteInSlices({
    supplier: supplier.id,
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
  memory: ResponseMemory,
): ProcessingResult | Promise<ProcessingResult> {
  if (result.unreadable) return { kind: 'no_bid', reason: 'unreadable' }
  if (result.removed > 0 && result.left === 0) return { kind: 'no_bid', reason: 'inactive' }
  if (result.text === undefined && result.body === body) return asReceived(response)
  return encodeChanged(result.text ?? result.body, encoding, context, memory)
}

/** A changed body in its original encoding, or decoded, also if there is no memory to encode it; a promise if that is done off the event loop. */
function encodeChanged(
  body: Buffer | string,
  encoding: Encoding,
  context: ProcessingContext,
  memory: ResponseMemory,
): ResponseBody | Promise<ResponseBody> {
  if (encoding === 'identity') return { kind: 'changed', body, decoded: false }
  const isLong = body.length > shortDocument
  if (context.recompress === 'identity' || (isLong && !memory.reserve(body.length)))
    return { kind: 'changed', body, decoded: true }
  const encoded = encode(encoding, body, context.gzip)
  return encoded instanceof Promise
    ? encoded.then((late): ResponseBody => ({ kind: 'changed', body: late, decoded: false }))
    : { kind: 'changed', body: encoded, decoded: false }
}
