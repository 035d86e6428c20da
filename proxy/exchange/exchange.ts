/**
 * The life of one bid request in six phases (docs/concepts.md), and what each of them calls:
 *
 *   admit      supplier.ts: data center, overload, allotment
 *   send       body-buffer.ts, deadline.ts (`tmax`), the supplier's gate, upstream-attempt.ts
 *   receive    body-buffer.ts, if the response is to be priced or is short; otherwise it is streamed to the caller
 *   price      response-processing.ts: decode, rewrite with the engine, encode again
 *   reply      reply.ts: the supplier's response, or a no-bid with its reason
 *   account    the supplier's metrics, and a span
 *
 * Each request has one Exchange. It is itself the sink of the supplier's response, the candidate of the supplier's gate and
 * the target of its deadline, so that a no-bid allocates no closure.
 */
import type { AccessLog } from '../access-log.ts'
import type { Candidate } from '../admission/gate.ts'
import { type Admission, overloaded } from '../admission/overload.ts'
import type { RequestOutcome } from '../metrics.ts'
import type { RefusedRequests } from '../refused-requests.ts'
import type { Supplier } from '../supplier.ts'
import type { BidSpan, BidTracer } from '../tracer.ts'
import type { Body, Forwarded, Inbound, ResponseHead, ResponseSink, SendFailure } from '../types.ts'
import type { AttemptContext } from '../upstream/endpoints.ts'
import { framing } from '../wire/headers.ts'
import { bidPricesOf } from './bid-prices.ts'
import { BodyBuffer, RequestBody } from './body-buffer.ts'
import { Deadline } from './deadline.ts'
import { responseShare } from './long-responses.ts'
import { type NoBid, type ResponseBody, replyNoBid, replyWhole, towards } from './reply.ts'
import type { RequestDecoder } from './request-decoder.ts'
import {
  type BufferedResponse,
  decodeResponse,
  type EncodedResult,
  encodeResponse,
  needsProcessing,
  type ProcessingContext,
  type ProcessingResult,
  processResponse,
} from './response-processing.ts'
import { UpstreamAttempt } from './upstream-attempt.ts'

export interface ExchangeContext extends ProcessingContext, AttemptContext, Admission {
  limits: Admission['limits'] & { maxRequestBytes: number; maxRewriteBytes: number }
  decoder: RequestDecoder
  /** null: no spans. */
  tracer: BidTracer | null
  /** null: it is off. */
  accessLog: AccessLog | null
  refused: RefusedRequests
}

/** A response of known length up to this is buffered even if OPD does not read it, so that a failure is a clean no-bid. */
const bufferedWhole = 64 * 1024

const noResponse: ResponseHead = { status: 0, message: '', fields: [], replies: [] }

/** One bid request, from its head to its last byte. */
export class Exchange implements Candidate, ResponseSink {
  private readonly inbound: Inbound
  private readonly supplier: Supplier
  private readonly context: ExchangeContext
  /** The bytes of the request, then those of the response, as they arrive. */
  private readonly buffer: BodyBuffer
  private readonly request: RequestBody
  private readonly deadline: Deadline
  private readonly upstream: UpstreamAttempt
  /** null: the request is not traced. */
  private readonly span: BidSpan | null
  private admitted = false
  /** Of the response. `done`: the request was accounted. */
  private stage: 'waiting' | 'buffering' | 'streaming' | 'done' = 'waiting'
  /** Whether the request is in the queue of the supplier's gate, or holds a place there. */
  private gateState: 'outside' | 'queued' | 'sent' = 'outside'
  /** When the gate sent the request. The upstream attempt has the time of its replay, if there is one. */
  private sentAt = 0
  /** The request was sent a second time. */
  private replayed = false
  private response: ResponseHead = noResponse
  /** The Content-Length of the response; null: it has none. */
  private length: number | null = null
  /** OPD reads the response, or bids of inactive seats are removed from it: it is buffered whole. */
  private processed = false
  /** From `decode` to `price`. */
  private buffered: BufferedResponse | null = null
  /** From `price` to `encode`. */
  private priced: ProcessingResult | null = null
  /** From `encode`, or from the end of a response that is not processed, to `sendEncoded`. */
  private encoded: EncodedResult | null = null
  /** What the caller has: the status, 0 without one, and bytes of the body. */
  private sentStatus = 0
  private sentBytes = 0

  constructor(inbound: Inbound, supplier: Supplier, context: ExchangeContext) {
    this.inbound = inbound
    this.supplier = supplier
    this.context = context
    this.buffer = new BodyBuffer(context.budget)
    this.request = new RequestBody(this.buffer)
    this.deadline = new Deadline(supplier.settings, inbound.arrived, this)
    this.upstream = new UpstreamAttempt(supplier)
    this.span = context.tracer === null ? null : context.tracer.begin(inbound.head.fields)
  }

  // --- admit ---

  /** Null: the lane reads the body. Otherwise the caller has a no-bid: `inactive`, `overload` or `qps`. */
  admit(): NoBid | null {
    const refusal = this.supplier.refusal(this.inbound.arrived, overloaded(this.context))
    if (refusal !== null) {
      this.noBid(refusal)
      return refusal
    }
    this.context.budget.inFlight++
    this.supplier.inFlight++
    this.admitted = true
    return null
  }

  // --- send ---

  /** The body is not complete yet. It may take as long as the supplier's timeout, counted from the head. */
  awaitBody(): void {
    if (this.stage !== 'done') this.deadline.awaitBody()
  }

  /**
   * False: the body exceeds maxRequestBytes, and the lane replies 413. Ignored once the exchange has ended.
   *
   * @param chunk bytes that the exchange may keep, or the whole body as latin1 text
   */
  receiveBody(chunk: Body): boolean {
    if (this.stage === 'done') return true
    this.request.addChunk(chunk)
    if (this.request.length > this.context.limits.maxRequestBytes) {
      this.refuseBody(413)
      return false
    }
    if (this.memoryFull) this.noBid('overload')
    return true
  }

  /**
   * Ends the exchange: the body cannot be received. The lane replies.
   *
   * @param status 400: it is malformed; 413: it is larger than it may be
   */
  refuseBody(status: 400 | 413): void {
    if (this.stage === 'done') return
    this.sentStatus = status
    this.supplier.metrics.refused('body')
    this.account('refused')
  }

  private get memoryFull(): boolean {
    return this.context.budget.bytes > this.context.limits.maxHeldBytes
  }

  /** The request's body is complete: `tmax` sets the deadline, and the supplier's gate sends, queues or refuses the request. */
  bodyReceived(): void {
    if (this.stage === 'done') return
    const { request, supplier, context } = this
    const withTmax = request.complete(this.inbound, supplier.settings.openrtb, context.decoder)
    if (withTmax === 'overload') return this.noBid('overload')
    this.deadline.start(withTmax, request.format)
    // If the limit permits, the gate calls `send` at once.
    const entered = supplier.gate.enter(this, performance.now())
    if (entered === 'queued') this.gateState = 'queued'
    else if (entered === 'refused') this.refuse()
  }

  get due(): number {
    return this.deadline.due
  }

  /** Called by the gate, at once or after the queue. The response comes to `head`, or `fail` is called. */
  send(now: number): void {
    this.gateState = 'sent'
    this.sentAt = now
    const { inbound, supplier, context } = this
    const { mirror, headers: rules, settings } = supplier
    const body = this.request.wire
    const sink =
      mirror?.copy({ inbound, body, rules, timeout: settings.timeout }, context, this) ?? this
    this.upstream.send(this.forwarded, body, context, now, sink)
  }

  /** What is sent to the supplier: if the request is traced, the parent of the supplier's span is ours. */
  private get forwarded(): Forwarded {
    const { inbound, span } = this
    if (span === null) return inbound
    const { head, remote, secure } = inbound
    return { remote, secure, head: { ...head, fields: span.fields, forwarded: null } }
  }

  /** Called by the gate if the queued request can no longer be answered in time. */
  refuse(): void {
    this.gateState = 'outside'
    this.noBid('overload')
  }

  /** Frees the place at the supplier. `answered` false: not in time; null: the end says nothing about the supplier's load. */
  private leaveGate(answered: boolean | null): void {
    const { gate } = this.supplier
    if (this.gateState === 'queued') gate.leave(this)
    if (this.gateState !== 'sent') return
    this.gateState = 'outside'
    const ended = this.upstream.sentAt + this.upstream.durationMs
    if (answered === null) gate.dropped(this.sentAt, ended)
    else gate.finished(this.sentAt, ended, answered)
  }

  // --- receive ---

  head(head: ResponseHead, length: number | null): void {
    const { status } = head
    this.response = head
    this.length = length
    this.processed = needsProcessing(this.supplier, head)
    const bodiless = status === 204 || status === 304
    const bodyLength = bodiless ? 0 : (length ?? Number.POSITIVE_INFINITY)
    if (this.processed || bodyLength <= bufferedWhole) this.stage = 'buffering'
    else this.startStream()
  }

  data(chunk: Buffer, resume: () => void): boolean {
    if (this.stage === 'streaming') {
      this.sentBytes += chunk.length
      if (this.inbound.reply.write(chunk)) return true
      this.inbound.reply.drained(resume)
      return false
    }
    this.buffer.addChunk(chunk)
    const { budget, limits } = this.context
    if (this.buffer.length > limits.maxRewriteBytes || budget.bytes > responseShare(limits))
      return this.streamInstead(resume)
    return true
  }

  /** The response is too large to be buffered: it is sent on unchanged, unless a seat is inactive. */
  private streamInstead(resume: () => void): boolean {
    const { supplier } = this
    if (supplier.inactiveSeats.size > 0) {
      this.cancel()
      this.noBid('unreadable')
      return true
    }
    if (this.processed) supplier.responses.countUnmodified('too_large')
    this.startStream()
    let flowing = true
    this.sentBytes = this.buffer.length
    for (const chunk of this.buffer.chunks()) flowing = this.inbound.reply.write(chunk)
    if (!flowing) this.inbound.reply.drained(resume)
    return flowing
  }

  private startStream(): void {
    this.stage = 'streaming'
    this.sentStatus = this.response.status
    this.inbound.reply.start(towards(this.response, framing, this.context.via), this.length)
  }

  takeBody(body: Buffer, now: number): void {
    const { budget, limits } = this.context
    const fits =
      body.length <= limits.maxRewriteBytes && budget.bytes + body.length <= responseShare(limits)
    // A response that is not processed is copied: a slow caller may take it after this call.
    if (!fits || !this.processed || this.stage !== 'buffering') {
      this.data(Buffer.from(body), () => {})
      return this.end(now)
    }
    this.buffer.count(body.length)
    this.upstreamEnded(now)
    this.countPrices(body)
    // It has arrived in time, and waits for the other responses for two turns at most.
    this.deadline.remove()
    // Calls the stages from `decode` to `sendEncoded`, together with them.
    this.context.batch.priceSoon(this, body)
  }

  private upstreamEnded(now: number): void {
    const { status } = this.response
    const success = status < 500
    this.upstream.finish(success ? 'success' : status, now)
    this.leaveGate(success ? true : null)
  }

  /** For the comparison with a canary. */
  private countPrices(body: Buffer): void {
    const { variant } = this.upstream
    const counts = variant === null ? undefined : this.supplier.metrics.variants?.[variant]
    if (counts === undefined) return
    const found = bidPricesOf(this.response, body)
    counts.bids += found?.bids ?? 0
    counts.prices += found?.prices ?? 0
  }

  end(now: number): void {
    const { status } = this.response
    this.upstreamEnded(now)
    if (this.stage === 'streaming') {
      this.inbound.reply.end()
      this.account(status === 204 ? 'no_bid' : 'answer')
    } else if (this.stage === 'buffering') {
      const body = this.buffer.wholeBody()
      this.countPrices(body)
      if (!this.processed) {
        this.encoded = { kind: 'unchanged', body }
        return this.context.batch.sendSoon(this)
      }
      this.decode(body)
      this.price()
      this.encode()
      this.sendEncoded()
    }
  }

  /**
   * No complete response came. A request that was not sent, or that met the close of an idle connection, is sent once more
   * (CONTRACT 3): on a new connection, to another endpoint if there is one.
   */
  fail(failure: SendFailure): void {
    const again = this.stage === 'waiting' && failure.kind !== 'broken' && !this.replayed
    const now = performance.now()
    // An idle connection that was closed says nothing about the endpoint.
    this.upstream.finish(again && failure.kind === 'reused' ? null : failure.error, now)
    if (this.stage === 'done') return
    if (again) {
      this.replayed = true
      this.supplier.metrics.replays++
      return this.upstream.send(this.forwarded, this.request.wire, this.context, now, this)
    }
    this.leaveGate(null)
    this.giveUp('upstream_error')
  }

  // --- price ---

  decode(body: Buffer): void {
    // The deadline has passed, or the caller has gone, since the response arrived.
    if (this.stage === 'done') return
    const { supplier, response: head, buffer, context } = this
    const isDone = () => this.stage === 'done'
    const request = () =>
      this.request.wholeRequest(context.decoder, isDone, () => this.noBid('overload'))
    const { format: requestFormat } = this.request
    const decoded = decodeResponse(head, body, context)
    this.buffered = { supplier, head, body, decoded, buffer, request, requestFormat, isDone }
  }

  price(): void {
    const { buffered } = this
    this.buffered = null
    if (buffered === null || this.stage === 'done') return
    const priced = processResponse(buffered, this.context)
    if (priced instanceof Promise) {
      this.deadline.resume()
      void priced.then((late) => this.finishLate(late))
    } else this.priced = priced
  }

  private finishLate(priced: ProcessingResult): void {
    this.priced = priced
    this.encode()
    this.sendEncoded()
  }

  /** Encodes the result of `price`, if there is one already. */
  encode(): void {
    const { priced } = this
    this.priced = null
    if (priced === null || this.stage === 'done') return
    const encoded = priced.kind === 'unencoded' ? encodeResponse(priced, this.context) : priced
    if (encoded instanceof Promise) {
      this.deadline.resume()
      void encoded.then((late) => this.finish(late))
    } else this.encoded = encoded
  }

  /** Sends the result, if there is one already. One that comes later is sent when it comes. */
  sendEncoded(): void {
    const { encoded } = this
    this.encoded = null
    if (encoded !== null) this.finish(encoded)
  }

  private finish(result: EncodedResult): void {
    if (this.stage === 'done') return
    if (result.kind === 'no_bid') this.noBid(result.reason)
    else this.reply(result)
  }

  // --- reply ---

  private reply(body: ResponseBody): void {
    replyWhole(this.inbound.reply, this.response, this.length, body, this.context.via)
    this.sentStatus = this.response.status
    this.sentBytes = body.body.length
    this.account(this.response.status === 204 ? 'no_bid' : 'answer')
  }

  private noBid(reason: NoBid, outcome: RequestOutcome = reason): void {
    if (reason === 'overload' && this.admitted) this.supplier.giveBack()
    this.sentStatus = replyNoBid(this.inbound.reply, reason, this.supplier.route.onFailure)
    this.account(outcome)
  }

  /** No complete response will follow: a no-bid if the caller's response has not started, otherwise a closed connection. */
  private giveUp(outcome: 'timeout' | 'upstream_error'): void {
    if (this.stage !== 'streaming') return this.noBid(outcome)
    this.inbound.reply.destroy()
    this.account(outcome)
  }

  /** The deadline has passed. */
  expire(): void {
    if (this.stage === 'done') return
    if (this.gateState === 'queued') {
      this.supplier.gate.leave(this)
      return this.refuse()
    }
    if (this.deadline.awaitsBody) return this.noBid('timeout', 'slow_request')
    this.upstream.abort(this.deadline.countsAsFailure ? 'timeout' : null)
    this.leaveGate(false)
    this.giveUp('timeout')
  }

  /** The caller has closed its connection. */
  callerGone(): void {
    if (this.stage === 'done') return
    this.cancel()
    this.account('client_abort')
  }

  /** Cancels the upstream request. Neither the endpoint nor the supplier's load is the cause. */
  private cancel(): void {
    this.upstream.abort(null)
    this.leaveGate(null)
  }

  // --- account ---

  private account(outcome: RequestOutcome): void {
    this.stage = 'done'
    this.deadline.remove()
    this.buffer.release()
    if (this.admitted) {
      this.context.budget.inFlight--
      this.supplier.inFlight--
    }
    const now = performance.now()
    const { variant, durationMs } = this.upstream
    const { metrics } = this.supplier
    metrics.finished(outcome, now - this.inbound.arrived, durationMs)
    if (variant !== null) metrics.variants?.[variant].finished(outcome, durationMs)
    if (outcome !== 'answer' && outcome !== 'no_bid') this.keepRefused(outcome, now)
    if (this.span !== null) this.trace(this.span, outcome, now)
    if (this.context.accessLog !== null) this.logAccess(this.context.accessLog, outcome, now)
  }

  private keepRefused(outcome: RequestOutcome, now: number): void {
    const { inbound, upstream } = this
    this.context.refused.addRequest({
      ...{ time: Date.now(), ssp: this.supplier.id, outcome, status: this.sentStatus },
      reason: outcome === 'refused' ? 'body' : null,
      protocol: inbound.protocol,
      durationMs: now - inbound.arrived,
      endpoint: upstream.url?.host ?? null,
    })
  }

  private logAccess(accessLog: AccessLog, outcome: RequestOutcome, now: number): void {
    const { inbound, upstream, supplier, sentStatus: status } = this
    const durationMs = now - inbound.arrived
    const { id: ssp } = supplier
    if (!accessLog.selects(ssp, outcome, status, durationMs)) return
    const { url } = upstream
    accessLog.write({
      ...{ ssp, outcome, status, durationMs, method: 'POST', path: `/bid/${ssp}` },
      ...{ protocol: inbound.protocol, remote: inbound.remote },
      // Before the body is complete its buffer counts it; afterwards the buffer has the response.
      received: this.request.wire.length || this.request.length,
      sent: this.sentBytes,
      upstream: url === null ? null : { host: url.host, durationMs: upstream.durationMs },
    })
  }

  private trace(span: BidSpan, outcome: RequestOutcome, ended: number): void {
    const { inbound, upstream, response } = this
    const { url, sentAt, durationMs } = upstream
    span.end({
      ssp: this.supplier.id,
      request: this.request.decoded ?? null,
      outcome,
      status: outcome === 'answer' || outcome === 'no_bid' ? response.status : null,
      arrived: inbound.arrived,
      ended,
      upstream: url === null ? null : { url, sentAt, durationMs },
    })
  }
}
