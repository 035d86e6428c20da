/**
 * The life of one bid request: admit ▸ choose ▸ send ▸ (answer arrives) ▸ look ▸ rewrite ▸ answer ▸ account.
 * One object per request, no closures; it is the sink of the answer itself.
 */
import { quickTmax } from '../opd/request.ts'
import type { Budget, LoopLag } from './admission.ts'
import { type Answer, mayBeRead, replyWhole } from './answer.ts'
import { type Decoded, decoding } from './encoding.ts'
import { header, towardsCaller } from './headers.ts'
import { Held } from './held.ts'
import type { AnswerSink, Inbound, SendFailure } from './lane/lane.ts'
import { Leg, type LegContext } from './leg.ts'
import type { Outcome } from './metrics.ts'
import { type NoBid, replyNoBid } from './no-bid.ts'
import { type Reader, Reading, type ReadingContext, type Verdict } from './reading.ts'
import type { Supplier } from './supplier.ts'

/** A streamed answer whose length is known to be at most this is kept whole, so that a failure stays a clean no-bid. */
const keptWhole = 64 * 1024

export interface ExchangeContext extends ReadingContext, LegContext {
  budget: Budget
  lag: LoopLag
  limits: {
    maxInFlight: number
    maxHeldBytes: number
    maxRequestBytes: number
    maxRewriteBytes: number
  }
}

const empty = Buffer.alloc(0)

type Stage = 'waiting' | 'keeping' | 'streaming' | 'done'

export class Exchange implements AnswerSink, Reader {
  private readonly inbound: Inbound
  readonly supplier: Supplier
  private readonly context: ExchangeContext
  private body: Buffer = empty
  /** The request decoded, once; null: it does not decode. */
  decoded: Buffer | null = null
  private readonly leg: Leg
  private readonly held: Held
  private timer: NodeJS.Timeout | null = null
  private admitted = false
  private stage: Stage = 'waiting'
  private replayed = false
  /** Whether the endpoint had long enough for its silence to count against it. */
  private fair = true
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
  }

  /** Null: go on and read the body; else the caller has its answer. */
  admit(): NoBid | null {
    const { budget, lag, limits } = this.context
    const refusal =
      this.supplier.refusal(this.inbound.arrived) ??
      (budget.inFlight >= limits.maxInFlight ||
      budget.bytes >= limits.maxHeldBytes ||
      lag.overloaded
        ? 'overload'
        : null)
    if (refusal !== null) {
      this.noBid(refusal)
      return refusal
    }
    budget.inFlight++
    this.supplier.inFlight++
    this.admitted = true
    return null
  }

  /** The body may take longer than the supplier has: the deadline is counted from the head. */
  awaitBody(): void {
    if (this.stage === 'done' || this.timer !== null) return
    this.timer = setTimeout(expire, this.supplier.route.timeout, this)
  }

  /** A piece of the request's body. False: it is over the limit, and the lane says so. */
  receive(chunk: Buffer): boolean {
    if (this.stage === 'done') return true
    this.held.add(chunk)
    if (this.held.length > this.context.limits.maxRequestBytes) {
      this.account('refused')
      return false
    }
    return true
  }

  /** The whole request has arrived. A gzip one is decoded on the side: for tmax now, for OPD later. */
  received(): void {
    if (this.stage === 'done') return
    this.body = this.held.whole()
    const { headers } = this.inbound
    const decoded = decoding(headers, this.body, this.context.limits.maxRewriteBytes)
    if (!(decoded instanceof Promise)) return this.keepDecoded(decoded)
    // Decoding off the event loop may have to wait for its turn.
    this.awaitBody()
    void decoded.then((late) => {
      if (this.stage !== 'done') this.keepDecoded(late)
    })
  }

  /** Small on the wire, it may be large here: a thousand times, and as long as the request lasts. */
  private keepDecoded(decoded: Decoded): void {
    this.decoded = decoded.ok ? decoded.body : null
    const bytes = decoded.ok && decoded.body !== this.body ? decoded.body.length : 0
    if (this.hold(bytes)) this.start()
    else this.noBid('overload')
  }

  hold(bytes: number): boolean {
    this.held.count(bytes)
    return this.context.budget.bytes <= this.context.limits.maxHeldBytes
  }

  private start(): void {
    const { timeout, tmaxMargin } = this.supplier.route
    const tmax = this.decoded === null ? undefined : quickTmax(this.decoded)
    const deadline =
      tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    this.fair = deadline * 2 >= timeout
    const left = deadline - (performance.now() - this.inbound.arrived)
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = setTimeout(expire, Math.max(1, left), this)
    this.send(false)
  }

  private send(fresh: boolean): void {
    this.leg.send(this.inbound, this.body, this.context, fresh, this)
  }

  // --- what comes back ---

  head(status: number, message: string, headers: string[]): void {
    this.status = status
    this.message = message
    this.headers = headers
    this.read = status >= 200 && status < 300 && status !== 204 && this.wantsReading()
    const length = header(headers, 'content-length')
    const bodiless = status === 204 || status === 304
    const known = bodiless ? 0 : length === undefined ? Number.POSITIVE_INFINITY : Number(length)
    if (this.read || known <= keptWhole) this.stage = 'keeping'
    else this.stream()
  }

  private wantsReading(): boolean {
    const { supplier, context, headers } = this
    // Whatever success a supplier calls it: bids of a seat that is switched off stay here.
    if (supplier.inactiveSeats.size > 0) return true
    if (this.status !== 200 || !mayBeRead(headers)) return false
    if (context.engine.reads(supplier.id)) return true
    context.engine.unread(supplier.id)
    return false
  }

  data(chunk: Buffer, resume: () => void): boolean {
    if (this.stage === 'streaming') {
      if (this.inbound.reply.write(chunk)) return true
      this.inbound.reply.drained(resume)
      return false
    }
    this.held.add(chunk)
    if (this.held.length > this.context.limits.maxRewriteBytes) return this.tooLarge(resume)
    return true
  }

  private tooLarge(resume: () => void): boolean {
    const { engine } = this.context
    if (this.supplier.inactiveSeats.size > 0) {
      this.leg.abort(null)
      this.noBid('unreadable')
      return true
    }
    if (this.read) engine.untouched(this.supplier.id, 'too_large')
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
    this.leg.over(this.status < 500)
    if (this.stage === 'streaming') {
      this.inbound.reply.end()
      this.account(this.status === 204 ? 'no_bid' : 'answer')
    } else if (this.stage === 'keeping') this.look()
  }

  fail(failure: SendFailure): void {
    this.leg.over(false)
    if (this.stage === 'done') return
    if (this.stage === 'waiting' && failure.kind !== 'broken' && !this.replayed) {
      this.replayed = true
      this.supplier.metrics.replays++
      this.send(true)
      return
    }
    if (this.stage === 'streaming') this.broken('upstream_error')
    else this.noBid('upstream_error')
  }

  // --- look ▸ rewrite ▸ answer ---

  private look(): void {
    const body = this.held.whole()
    if (this.read) new Reading(this, this.context, this.headers, body).look()
    else this.answer({ kind: 'as_is', body })
  }

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
    // A very short tmax says nothing about the endpoint; one a little shorter than `timeout` is what most send.
    this.leg.abort(this.fair ? false : null)
    if (this.stage === 'streaming') this.broken('timeout')
    else this.noBid('timeout')
  }

  /** The caller went away. */
  callerGone(): void {
    if (this.stage === 'done') return
    this.leg.abort(null)
    this.account('client_abort')
  }

  private account(outcome: Outcome): void {
    this.stage = 'done'
    if (this.timer !== null) clearTimeout(this.timer)
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

function expire(exchange: Exchange): void {
  exchange.expire()
}
