/**
 * The life of one bid request in six phases (docs/concepts.md): admit ▸ send ▸ receive ▸ price ▸ reply ▸ account. Each request
 * has one Exchange. It is itself the sink of the supplier's response, the candidate of the supplier's gate and the target of
 * its deadline: the common path allocates no closure.
 */
import { type Admission, overloaded } from '../admission.ts'
import type { Candidate } from '../gate.ts'
import type { Body, Inbound, ResponseHead, ResponseSink, SendFailure } from '../listen/types.ts'
import type { RequestOutcome } from '../metrics.ts'
import type { Supplier } from '../supplier.ts'
import type { BidTracer } from '../tracer.ts'
import { BodyBuffer } from './body-buffer.ts'
import { Deadline } from './deadline.ts'
import { framing } from './headers.ts'
import { priceSoon } from './pricing-batch.ts'
import { RequestBody } from './request-body.ts'
import type { RequestDecoder } from './request-decoder.ts'
import { type NoBid, type ResponseBody, replyNoBid, replyWhole, towards } from './response.ts'
import {
  needsProcessing,
  type ProcessingContext,
  type ProcessingResult,
  processResponse,
} from './response-processing.ts'
import { type AttemptContext, UpstreamAttempt } from './upstream-attempt.ts'

export interface ExchangeContext extends ProcessingContext, AttemptContext, Admission {
  limits: Admission['limits'] & { maxRequestBytes: number; maxRewriteBytes: number }
  decoder: RequestDecoder
  /** null: no spans. */
  tracer: BidTracer | null
}

/** A response of known length up to this is buffered even if OPD does not read it, so that a failure is a clean no-bid. */
const bufferedWhole = 64 * 1024

const noResponse: ResponseHead = { status: 0, message: '', fields: [], reply: null }

export class Exchange implements Candidate, ResponseSink {
  private readonly inbound: Inbound
  private readonly supplier: Supplier
  private readonly context: ExchangeContext
  /** The bytes of the request, then those of the response, as they arrive. */
  private readonly buffer: BodyBuffer
  private readonly request: RequestBody
  private readonly deadline: Deadline
  private readonly upstream: UpstreamAttempt
  /** The fields of the request, which its connection forgets before `account`; null: no spans. */
  private readonly traced: readonly string[] | null
  private admitted = false
  private stage: 'waiting' | 'buffering' | 'streaming' | 'done' = 'waiting'
  /** Whether the request is in the queue of the supplier's gate, or holds a place there. */
  private gateState: 'outside' | 'queued' | 'sent' = 'outside'
  private replayed = false
  // The response: its head, and whether it is processed before it is sent on.
  private response: ResponseHead = noResponse
  private length: number | null = null
  private processed = false
  /** Until it is sent. */
  private result: ProcessingResult | null = null

  constructor(inbound: Inbound, supplier: Supplier, context: ExchangeContext) {
    this.inbound = inbound
    this.supplier = supplier
    this.context = context
    this.buffer = new BodyBuffer(context.budget)
    this.request = new RequestBody(this.buffer)
    this.deadline = new Deadline(supplier.route, inbound.arrived, this)
    this.upstream = new UpstreamAttempt(supplier)
    this.traced = context.tracer === null ? null : inbound.head.fields
  }

  // --- admit ---

  /** Null: the lane reads the body. Otherwise the request is refused, and the caller has its no-bid. */
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

  /** Takes a chunk of the request's body, or all of it as text. False: the body exceeds the limit, and the lane sends the refusal. */
  receiveBody(chunk: Body): boolean {
    if (this.stage === 'done') return true
    this.request.add(chunk)
    if (this.request.length > this.context.limits.maxRequestBytes) {
      this.account('refused')
      return false
    }
    if (this.memoryFull) this.noBid('overload')
    return true
  }

  private get memoryFull(): boolean {
    return this.context.budget.bytes > this.context.limits.maxHeldBytes
  }

  /** The request's body is complete: its deadline begins, and the supplier's gate sends, queues or refuses it. */
  bodyReceived(): void {
    if (this.stage === 'done') return
    const readable = this.request.complete(this.inbound, this.context.decoder)
    if (readable === 'overload') return this.noBid('overload')
    this.deadline.start(readable)
    const entered = this.supplier.gate.enter(this, performance.now())
    if (entered === 'queued') this.gateState = 'queued'
    else if (entered === 'refused') this.refuse()
  }

  get due(): number {
    return this.deadline.due
  }

  /** Called by the gate, at once or after the queue. */
  send(now: number): void {
    this.gateState = 'sent'
    this.upstream.send(this.inbound, this.request.wire, this.context, now, this)
  }

  /** Called by the gate if the queued request can no longer be answered in time. */
  refuse(): void {
    this.gateState = 'outside'
    this.noBid('overload')
  }

  /** Frees the place at the supplier. `answered` null: the result says nothing about the supplier's load. */
  private leaveGate(answered: boolean | null): void {
    const { gate } = this.supplier
    if (this.gateState === 'queued') gate.leave(this)
    if (this.gateState !== 'sent') return
    this.gateState = 'outside'
    const { sentAt, durationMs } = this.upstream
    if (answered === null) gate.dropped(sentAt + durationMs)
    else gate.finished(sentAt, sentAt + durationMs, answered)
  }

  // --- receive ---

  head(head: ResponseHead, length: number | null): void {
    const { status } = head
    this.response = head
    this.length = length
    this.processed = needsProcessing(this.supplier, head, this.context.engine)
    const bodiless = status === 204 || status === 304
    const known = bodiless ? 0 : (length ?? Number.POSITIVE_INFINITY)
    if (this.processed || known <= bufferedWhole) this.stage = 'buffering'
    else this.startStream()
  }

  data(chunk: Buffer, resume: () => void): boolean {
    if (this.stage === 'streaming') {
      if (this.inbound.reply.write(chunk)) return true
      this.inbound.reply.drained(resume)
      return false
    }
    this.buffer.add(chunk)
    if (this.buffer.length > this.context.limits.maxRewriteBytes || this.memoryFull)
      return this.streamInstead(resume)
    return true
  }

  /** The response is too large to be buffered. */
  private streamInstead(resume: () => void): boolean {
    const { supplier } = this
    if (supplier.inactiveSeats.size > 0) {
      this.abort(null)
      this.noBid('unreadable')
      return true
    }
    if (this.processed) this.context.engine.countUnmodified(supplier.id, 'too_large')
    this.startStream()
    let flowing = true
    for (const chunk of this.buffer.chunks()) flowing = this.inbound.reply.write(chunk)
    if (!flowing) this.inbound.reply.drained(resume)
    return flowing
  }

  private startStream(): void {
    this.stage = 'streaming'
    this.inbound.reply.start(towards(this.response, framing, this.context.via), this.length)
  }

  whole(body: Buffer, now: number): void {
    const { budget, limits } = this.context
    const { maxRewriteBytes, maxHeldBytes } = limits
    const fits = body.length <= maxRewriteBytes && budget.bytes + body.length <= maxHeldBytes
    // A response that is not processed may be written after this call.
    if (!fits || !this.processed || this.stage !== 'buffering') {
      this.data(Buffer.from(body), () => {})
      return this.end(now)
    }
    this.buffer.count(body.length)
    this.upstreamEnded(now)
    priceSoon(this, body)
  }

  private upstreamEnded(now: number): void {
    const { status } = this.response
    const success = status < 500
    this.upstream.finish(success ? 'success' : status, now)
    this.leaveGate(success ? true : null)
  }

  end(now: number): void {
    const { status } = this.response
    this.upstreamEnded(now)
    if (this.stage === 'streaming') {
      this.inbound.reply.end()
      this.account(status === 204 ? 'no_bid' : 'answer')
    } else if (this.stage === 'buffering') {
      const body = this.buffer.whole()
      if (!this.processed) return this.reply({ kind: 'unchanged', body })
      this.price(body, false)
      this.sendPriced()
    }
  }

  fail(failure: SendFailure): void {
    const again = this.stage === 'waiting' && failure.kind !== 'broken' && !this.replayed
    // An idle connection that was closed says nothing about the endpoint.
    const now = performance.now()
    this.upstream.finish(again && failure.kind === 'reused' ? null : failure.error, now)
    if (this.stage === 'done') return
    if (again) {
      this.replayed = true
      this.supplier.metrics.replays++
      return this.upstream.send(this.inbound, this.request.wire, this.context, now, this)
    }
    this.leaveGate(null)
    this.giveUp('upstream_error')
  }

  // --- price ---

  /** Prices the response; the result is sent by `sendPriced`. `shared`: the bytes are valid only during the call. */
  price(body: Buffer, shared: boolean): void {
    // The deadline has passed, or the caller has gone, since the response arrived.
    if (this.stage === 'done') return
    const { supplier, response: head, buffer } = this
    const { decoder } = this.context
    const isDone = () => this.stage === 'done'
    const request = () => this.request.whole(decoder, isDone, () => this.noBid('overload'))
    const response = { supplier, head, body, shared, buffer, request, isDone }
    const result = processResponse(response, this.context)
    if (result instanceof Promise) void result.then((late) => this.finish(late))
    else this.result = result
  }

  /** Sends what `price` returned, unless it has to wait for more. */
  sendPriced(): void {
    const { result } = this
    this.result = null
    if (result !== null) this.finish(result)
  }

  private finish(result: ProcessingResult): void {
    if (this.stage === 'done') return
    if (result.kind === 'no_bid') this.noBid(result.reason)
    else this.reply(result)
  }

  // --- reply ---

  private reply(body: ResponseBody): void {
    replyWhole(this.inbound.reply, this.response, this.length, body, this.context.via)
    this.account(this.response.status === 204 ? 'no_bid' : 'answer')
  }

  private noBid(reason: NoBid): void {
    if (reason === 'overload' && this.admitted) this.supplier.giveBack()
    replyNoBid(this.inbound.reply, reason, this.supplier.route.onFailure)
    this.account(reason)
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
    this.abort(this.deadline.countsAsFailure ? 'timeout' : null)
    this.giveUp('timeout')
  }

  /** The caller has closed its connection. */
  callerGone(): void {
    if (this.stage === 'done') return
    this.abort(null)
    this.account('client_abort')
  }

  /** Cancels the upstream request. Null: neither the endpoint nor the supplier's load is the cause. */
  private abort(cause: 'timeout' | null): void {
    this.upstream.abort(cause)
    this.leaveGate(cause === null ? null : false)
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
    this.supplier.metrics.finished(outcome, now - this.inbound.arrived, this.upstream.durationMs)
    if (this.traced !== null) this.trace(this.traced, outcome, now)
  }

  private trace(fields: readonly string[], outcome: RequestOutcome, ended: number): void {
    const { inbound, upstream, response } = this
    const { url, sentAt, durationMs } = upstream
    this.context.tracer?.bidFinished({
      ssp: this.supplier.id,
      fields,
      request: this.request.decoded ?? null,
      outcome,
      status: outcome === 'answer' || outcome === 'no_bid' ? response.status : null,
      ...{ arrived: inbound.arrived, ended },
      upstream: url === null ? null : { url, sentAt, durationMs },
    })
  }
}
