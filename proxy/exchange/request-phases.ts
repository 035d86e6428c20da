/**
 * The first two phases of a bid request (exchange.ts): admit ▸ send. The body is received, its deadline begins, and the
 * supplier's gate lets it through.
 */
import { type Admission, overloaded } from '../admission.ts'
import type { Candidate } from '../gate.ts'
import { type Body, bytesOf, type Inbound } from '../listen/types.ts'
import type { RequestOutcome } from '../metrics.ts'
import type { Supplier } from '../supplier.ts'
import type { BidTracer } from '../tracer.ts'
import { BodyBuffer } from './body-buffer.ts'
import { Deadline } from './deadline.ts'
import { requestEncoding } from './encoding.ts'
import type { RequestDecoder } from './request-decoder.ts'
import type { NoBid } from './response.ts'
import type { ProcessingContext } from './response-processing.ts'
import { type AttemptContext, UpstreamAttempt } from './upstream-attempt.ts'

export interface ExchangeContext extends ProcessingContext, AttemptContext, Admission {
  limits: Admission['limits'] & { maxRequestBytes: number; maxRewriteBytes: number }
  decoder: RequestDecoder
  /** null: no spans. */
  tracer: BidTracer | null
}

export abstract class RequestPhases implements Candidate {
  protected readonly inbound: Inbound
  protected readonly supplier: Supplier
  protected readonly context: ExchangeContext
  protected readonly buffer: BodyBuffer
  protected readonly deadline: Deadline
  protected readonly upstream: UpstreamAttempt
  /** The fields of the request, which its connection forgets before `account`; null: no spans. */
  protected readonly traced: readonly string[] | null
  protected admitted = false
  protected stage: 'waiting' | 'buffering' | 'streaming' | 'done' = 'waiting'
  /** Whether the request is in the queue of the supplier's gate, or holds a place there. */
  protected gateState: 'outside' | 'queued' | 'sent' = 'outside'
  /** The request's body as received, and decoded (null: not readable; undefined: most of it is not decoded yet). */
  protected body: Body = ''
  protected decoded: Body | null | undefined = null

  constructor(inbound: Inbound, supplier: Supplier, context: ExchangeContext) {
    this.inbound = inbound
    this.supplier = supplier
    this.context = context
    this.buffer = new BodyBuffer(context.budget)
    this.deadline = new Deadline(supplier.route, inbound.arrived, this)
    this.upstream = new UpstreamAttempt(supplier)
    this.traced = context.tracer === null ? null : inbound.head.fields
  }

  /** The deadline has passed. */
  abstract expire(): void
  /** Called by the gate, at once or after the queue. */
  abstract send(now: number): void
  protected abstract noBid(reason: NoBid): void
  protected abstract account(outcome: RequestOutcome): void

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
    if (typeof chunk === 'string') {
      this.body = chunk
      this.buffer.count(chunk.length)
    } else this.buffer.add(chunk)
    if (Math.max(chunk.length, this.buffer.length) > this.context.limits.maxRequestBytes) {
      this.account('refused')
      return false
    }
    if (this.memoryFull) this.noBid('overload')
    return true
  }

  protected get memoryFull(): boolean {
    return this.context.budget.bytes > this.context.limits.maxHeldBytes
  }

  /** The request's body is complete. */
  bodyReceived(): void {
    if (this.stage === 'done') return
    if (this.body === '') this.body = this.buffer.whole()
    const encoding = requestEncoding(this.inbound.head)
    if (encoding === 'gzip') return this.gzipReceived()
    this.decoded = encoding === null ? null : this.body
    this.enterGate(this.decoded)
  }

  /** A gzip body may decode to a thousand times its length: only its beginning, with `tmax`, is decoded before sending. */
  private gzipReceived(): void {
    this.body = bytesOf(this.body)
    const start = this.context.decoder.start(this.body)
    if (start === 'overload') return this.noBid('overload')
    const { bytes, whole } = start
    this.decoded = whole ? bytes : undefined
    if (whole && bytes !== null) this.buffer.count(bytes.length)
    this.enterGate(bytes)
  }

  /** `request`: the decoded part of the request that may contain `tmax`; null: the request is not readable. */
  private enterGate(request: Body | null): void {
    this.deadline.start(request)
    const now = performance.now()
    const entered = this.supplier.gate.enter(this, now)
    if (entered === 'queued') this.gateState = 'queued'
    else if (entered === 'refused') this.refuse()
  }

  get due(): number {
    return this.deadline.due
  }

  /** Called by the gate if the queued request can no longer be answered in time. */
  refuse(): void {
    this.gateState = 'outside'
    this.noBid('overload')
  }

  /** Frees the place at the supplier. `answered` null: the result says nothing about the supplier's load. */
  protected leaveGate(answered: boolean | null): void {
    const { gate } = this.supplier
    if (this.gateState === 'queued') gate.leave(this)
    if (this.gateState !== 'sent') return
    this.gateState = 'outside'
    const { sentAt, durationMs } = this.upstream
    if (answered === null) gate.dropped(sentAt + durationMs)
    else gate.finished(sentAt, sentAt + durationMs, answered)
  }

  /** The request as OPD reads it, asked for only when a bid is to be priced. */
  protected decodedRequest(): Body | null | Promise<Buffer | null> {
    const { decoded } = this
    return decoded === undefined ? this.decodeWhole(bytesOf(this.body)) : decoded
  }

  private async decodeWhole(body: Buffer): Promise<Buffer | null> {
    const decoded = await this.context.decoder.whole(body, () => this.stage !== 'done')
    if (this.stage === 'done') return null
    if (decoded !== 'overload') {
      this.buffer.count(decoded?.length ?? 0)
      return decoded
    }
    this.noBid('overload')
    return null
  }
}
