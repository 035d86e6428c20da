/**
 * The life of one bid request: admit ▸ choose ▸ send ▸ (answer arrives) ▸ look ▸ rewrite ▸ answer ▸ account.
 * One object per request, no closures; it is the sink of the answer itself.
 */
import { type Admission, overloaded } from '../admission.ts'
import type { Candidate } from '../gate.ts'
import type { AnswerSink, Inbound, SendFailure } from '../listen/types.ts'
import type { Outcome } from '../metrics.ts'
import type { Supplier } from '../supplier.ts'
import { Held } from './body-buffer.ts'
import { Deadline } from './deadline.ts'
import { requestEncoding } from './encoding.ts'
import { header, towardsCaller } from './headers.ts'
import { type NoBid, replyNoBid } from './no-bid.ts'
import type { RequestDecoder } from './request-decoder.ts'
import { type Answer, replyWhole } from './response.ts'
import {
  type Reader,
  Reading,
  type ReadingContext,
  type Verdict,
  wantsReading,
} from './response-processing.ts'
import { Leg, type LegContext } from './upstream-attempt.ts'

/** A streamed answer whose length is known to be at most this is kept whole, so that a failure stays a clean no-bid. */
const keptWhole = 64 * 1024

export interface ExchangeContext extends ReadingContext, LegContext, Admission {
  limits: Admission['limits'] & { maxRequestBytes: number; maxRewriteBytes: number }
  decoder: RequestDecoder
}

const empty = Buffer.alloc(0)

type Stage = 'waiting' | 'keeping' | 'streaming' | 'done'

export class Exchange implements AnswerSink, Reader, Candidate {
  private readonly inbound: Inbound
  readonly supplier: Supplier
  private readonly context: ExchangeContext
  private body: Buffer = empty
  /** The request as OPD reads it; null: it cannot be read; undefined: most of it is still to be decoded. */
  private decoded: Buffer | null | undefined = null
  private readonly leg: Leg
  private readonly held: Held
  private readonly deadline: Deadline
  private admitted = false
  /** Whether it waits at the supplier's gate, or has passed it. */
  private passage: 'none' | 'queued' | 'sent' = 'none'
  private stage: Stage = 'waiting'
  private replayed = false
  // The answer as it comes.
  status = 0
  message = ''
  headers: string[] = []
  private read = false

  constructor(inbound: Inbound, supplier: Supplier, context: ExchangeContext) {
    this.inbound = inbound
    this.supplier = supplier
    this.context = context
    this.leg = new Leg(supplier)
    this.held = new Held(context.budget)
    this.deadline = new Deadline(this, supplier.route, inbound.arrived)
  }

  /** Null: go on and read the body; else the caller has its answer. */
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

  /** The body may take longer than the supplier has: the deadline is counted from the head. */
  awaitBody(): void {
    if (this.stage !== 'done') this.deadline.awaitBody()
  }

  /** A piece of the request's body. False: it is over the limit, and the lane says so. */
  receive(chunk: Buffer): boolean {
    if (this.stage === 'done') return true
    this.held.add(chunk)
    if (this.held.length > this.context.limits.maxRequestBytes) {
      this.account('refused')
      return false
    }
    if (this.full) this.noBid('overload')
    return true
  }

  /** This node holds more than it may. */
  private get full(): boolean {
    return this.context.budget.bytes > this.context.limits.maxHeldBytes
  }

  /** The whole request has arrived. */
  received(): void {
    if (this.stage === 'done') return
    this.body = this.held.whole()
    const encoding = requestEncoding(this.inbound.headers)
    if (encoding === 'gzip') return this.receivedGzip()
    this.decoded = encoding === null ? null : this.body
    this.start(this.decoded)
  }

  /** Small on the wire, it may be large here: a thousand times, and as long as the request lasts. */
  private receivedGzip(): void {
    const start = this.context.decoder.start(this.body)
    if (start === 'overload') return this.noBid('overload')
    const { bytes, whole } = start
    this.decoded = whole ? bytes : undefined
    if (whole && bytes !== null) this.held.count(bytes.length)
    this.start(bytes)
  }

  /** `request`: as much of it as is read for tmax; null: it cannot be read. */
  private start(request: Buffer | null): void {
    this.deadline.start(request)
    const entered = this.supplier.gate.enter(this, performance.now())
    if (entered === 'queued') this.passage = 'queued'
    else if (entered === 'refused') this.refuse()
  }

  /** The request for OPD, which asks where an answer has a bid to price. */
  request(): Buffer | null | Promise<Buffer | null> {
    return this.decoded === undefined ? this.decodeWhole(this.body) : this.decoded
  }

  private async decodeWhole(body: Buffer): Promise<Buffer | null> {
    const decoded = await this.context.decoder.whole(body, () => this.waiting)
    if (!this.waiting) return null
    if (decoded !== 'overload') {
      this.held.count(decoded?.length ?? 0)
      return decoded
    }
    this.noBid('overload')
    return null
  }

  hold(bytes: number): boolean {
    const { budget, limits } = this.context
    if (budget.bytes + bytes > limits.maxHeldBytes) return false
    this.held.count(bytes)
    return true
  }

  // --- the gate ---

  get due(): number {
    return this.deadline.due
  }

  send(): void {
    this.passage = 'sent'
    this.attempt(false)
  }

  refuse(): void {
    this.passage = 'none'
    this.noBid('overload')
  }

  /** Its place at the supplier is free; `answered` null: its end says nothing about the load of the supplier. */
  private release(answered: boolean | null): void {
    if (this.passage !== 'sent') return
    this.passage = 'none'
    const { sentAt, tookMs } = this.leg
    const { gate } = this.supplier
    if (answered === null) gate.dropped(sentAt + tookMs)
    else gate.finished(sentAt, sentAt + tookMs, answered)
  }

  /** Given up before it was answered. */
  private abort(end: 'timeout' | null): void {
    this.leg.abort(end)
    if (this.passage === 'queued') this.supplier.gate.leave(this)
    this.release(end === null ? null : false)
  }

  private attempt(fresh: boolean): void {
    this.leg.send(this.inbound, this.body, this.context, fresh, this)
  }

  // --- what comes back ---

  head(status: number, message: string, headers: string[]): void {
    this.status = status
    this.message = message
    this.headers = headers
    this.read = wantsReading(this, headers, this.context.engine)
    const length = header(headers, 'content-length')
    const bodiless = status === 204 || status === 304
    const known = bodiless ? 0 : length === undefined ? Number.POSITIVE_INFINITY : Number(length)
    if (this.read || known <= keptWhole) this.stage = 'keeping'
    else this.stream()
  }

  data(chunk: Buffer, resume: () => void): boolean {
    if (this.stage === 'streaming') {
      if (this.inbound.reply.write(chunk)) return true
      this.inbound.reply.drained(resume)
      return false
    }
    this.held.add(chunk)
    if (this.held.length > this.context.limits.maxRewriteBytes || this.full)
      return this.tooLarge(resume)
    return true
  }

  private tooLarge(resume: () => void): boolean {
    const { engine } = this.context
    if (this.supplier.inactiveSeats.size > 0) {
      this.abort(null)
      this.noBid('unreadable')
      return true
    }
    if (this.read) engine.countUnmodified(this.supplier.id, 'too_large')
    this.stream()
    let flowing = true
    for (const chunk of this.held.each()) flowing = this.inbound.reply.write(chunk)
    if (!flowing) this.inbound.reply.drained(resume)
    return flowing
  }

  private stream(): void {
    this.stage = 'streaming'
    const headers = towardsCaller(this.headers, null, false, this.context.via)
    this.inbound.reply.start(this.status, this.message, headers)
  }

  end(): void {
    const good = this.status < 500
    this.leg.over(good ? 'good' : this.status)
    this.release(good ? true : null)
    if (this.stage === 'streaming') {
      this.inbound.reply.end()
      this.account(this.status === 204 ? 'no_bid' : 'answer')
    } else if (this.stage === 'keeping') {
      const body = this.held.whole()
      if (this.read) new Reading(this, this.context, this.headers, body).look()
      else this.answer({ kind: 'as_is', body })
    }
  }

  fail(failure: SendFailure): void {
    const again = this.stage === 'waiting' && failure.kind !== 'broken' && !this.replayed
    // That a connection was closed while it was idle says nothing about the endpoint.
    this.leg.over(again && failure.kind === 'reused' ? null : failure.error)
    if (this.stage === 'done') return
    if (again) {
      this.replayed = true
      this.supplier.metrics.replays++
      this.attempt(true)
      return
    }
    this.release(null)
    if (this.stage === 'streaming') this.broken('upstream_error')
    else this.noBid('upstream_error')
  }

  // --- look ▸ rewrite ▸ answer ---

  get waiting(): boolean {
    return this.stage !== 'done'
  }

  concluded(verdict: Verdict): void {
    if (verdict.kind === 'no_bid') this.noBid(verdict.reason)
    else this.answer(verdict)
  }

  private answer(answer: Answer): void {
    replyWhole(this.inbound.reply, this, answer, this.context.via)
    this.account(this.status === 204 ? 'no_bid' : 'answer')
  }

  // --- when it does not come to an answer ---

  private noBid(reason: NoBid): void {
    if (reason === 'overload' && this.admitted) this.supplier.giveBack()
    replyNoBid(this.inbound.reply, reason, this.supplier.route.onFailure)
    this.account(reason)
  }

  private broken(outcome: Outcome): void {
    this.inbound.reply.destroy()
    this.account(outcome)
  }

  /** The deadline: the caller has its answer now, the upstream request is aborted. */
  expire(): void {
    if (this.stage === 'done') return
    if (this.passage === 'queued') {
      this.supplier.gate.leave(this)
      return this.refuse()
    }
    this.abort(this.deadline.fair ? 'timeout' : null)
    if (this.stage === 'streaming') this.broken('timeout')
    else this.noBid('timeout')
  }

  /** The caller went away. */
  callerGone(): void {
    if (this.stage === 'done') return
    this.abort(null)
    this.account('client_abort')
  }

  private account(outcome: Outcome): void {
    this.stage = 'done'
    this.deadline.clear()
    const { budget } = this.context
    this.held.release()
    if (this.admitted) {
      budget.inFlight--
      this.supplier.inFlight--
    }
    const total = performance.now() - this.inbound.arrived
    this.supplier.metrics.finished(outcome, total, this.leg.tookMs)
  }
}
