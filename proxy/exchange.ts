/**
 * The life of one bid request: admit ▸ choose ▸ send ▸ (answer arrives) ▸ look ▸ rewrite ▸ answer ▸ account.
 * One object per request, no closures; it is the sink of the answer itself.
 */
import type { Engine, RewrittenAnswer } from '../opd/engine.ts'
import { quickTmax } from '../opd/request.ts'
import type { Budget, LoopLag } from './admission.ts'
import { type Answer, finishAnswer, mayBeRead, unreadableReason } from './answer.ts'
import { decode, decodeSync, type Encoding, encodingOf } from './encoding.ts'
import { header, towardsCaller, towardsSupplier } from './headers.ts'
import type { AnswerSink, Inbound, SendFailure, Sent } from './lane/lane.ts'
import type { Outcome } from './metrics.ts'
import type { Supplier } from './supplier.ts'
import type { Endpoint } from './upstream/endpoints.ts'

/** A streamed answer whose length is known to be at most this is kept whole, so that a failure stays a clean no-bid. */
const keptWhole = 64 * 1024

export interface ExchangeContext {
  engine: Engine
  budget: Budget
  lag: LoopLag
  limits: {
    maxInFlight: number
    maxHeldBytes: number
    maxRequestBytes: number
    maxRewriteBytes: number
  }
  recompress: 'same' | 'identity'
  via: string | null
  trusted: (remote: string) => boolean
}

export const statusOf: Readonly<Record<string, number>> = {
  overload: 503,
  timeout: 504,
  upstream_error: 502,
}

export type NoBid = 'inactive' | 'qps' | 'unreadable' | 'overload' | 'timeout' | 'upstream_error'

const empty = Buffer.alloc(0)

type Stage = 'waiting' | 'keeping' | 'streaming' | 'done'

export class Exchange implements AnswerSink {
  private readonly inbound: Inbound
  private readonly supplier: Supplier
  private readonly context: ExchangeContext
  private body: Buffer = empty
  /** The request decoded, once; null: it does not decode. */
  private decoded: Buffer | null = null
  private endpoint: Endpoint | null = null
  private sent: Sent | null = null
  private timer: NodeJS.Timeout | null = null
  private admitted = false
  private stage: Stage = 'waiting'
  private replayed = false
  private sentAt = 0
  private upstreamMs = 0
  private held = 0
  private fullTimeout = true
  // The answer as it comes.
  private status = 0
  private message = ''
  private headers: string[] = []
  private chunks: Buffer[] = []
  private length = 0
  private read = false

  constructor(inbound: Inbound, supplier: Supplier, context: ExchangeContext) {
    this.inbound = inbound
    this.supplier = supplier
    this.context = context
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

  /** A piece of the request's body. False: it is over the limit, and the lane says so. */
  receive(chunk: Buffer): boolean {
    if (this.stage === 'done') return true
    this.chunks.push(chunk)
    this.length += chunk.length
    this.hold(chunk.length)
    if (this.length > this.context.limits.maxRequestBytes) {
      this.account('refused')
      return false
    }
    return true
  }

  /** The whole request has arrived. A gzip one is decoded on the side: for tmax now, for OPD later. */
  received(): void {
    if (this.stage === 'done') return
    this.body = this.collected()
    const encoding = encodingOf(header(this.inbound.headers, 'content-encoding'))
    if (encoding === null) return this.start()
    const limit = this.context.limits.maxRewriteBytes
    const decoded = decodeSync(encoding, this.body, limit)
    if (decoded === null)
      void decode(encoding, this.body, limit).then((late) => {
        if (this.stage === 'done') return
        this.decoded = late.ok ? late.body : null
        this.start()
      })
    else {
      this.decoded = decoded.ok ? decoded.body : null
      this.start()
    }
  }

  private collected(): Buffer {
    const { chunks } = this
    const whole = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, this.length)
    this.chunks = []
    this.length = 0
    return whole
  }

  private start(): void {
    const { timeout, tmaxMargin } = this.supplier.route
    const tmax = this.decoded === null ? undefined : quickTmax(this.decoded)
    const deadline =
      tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    this.fullTimeout = deadline === timeout
    const left = deadline - (performance.now() - this.inbound.arrived)
    this.timer = setTimeout(expire, Math.max(1, left), this)
    this.send(false)
  }

  private send(fresh: boolean): void {
    const { supplier, inbound, context } = this
    const previous = this.endpoint
    const endpoint = supplier.endpoints.choose(previous ?? undefined)
    this.endpoint = endpoint
    endpoint.inFlight++
    const headers = towardsSupplier(inbound.headers, endpoint.host, this.body.length, {
      remote: inbound.remote,
      trusted: context.trusted(inbound.remote),
      proto: inbound.secure ? 'https' : 'http',
      host: header(inbound.headers, 'host') ?? '',
      via: context.via,
    })
    this.sentAt = performance.now()
    const connection = endpoint.connections.take(fresh)
    this.sent = connection
    connection.dispatch(endpoint.target(inbound.query), headers, this.body, this)
  }

  // --- what comes back ---

  head(status: number, message: string, headers: string[]): void {
    this.status = status
    this.message = message
    this.headers = headers
    this.read = status === 200 && this.wantsReading()
    const length = header(headers, 'content-length')
    const bodiless = status === 204 || status === 304
    const known = bodiless ? 0 : length === undefined ? Number.POSITIVE_INFINITY : Number(length)
    if (this.read || known <= keptWhole) this.stage = 'keeping'
    else this.stream()
  }

  private wantsReading(): boolean {
    const { supplier, context, headers } = this
    if (supplier.inactiveSeats.size > 0) return true
    return context.engine.reads(supplier.id) && mayBeRead(headers)
  }

  data(chunk: Buffer, resume: () => void): boolean {
    if (this.stage === 'streaming') {
      if (this.inbound.reply.write(chunk)) return true
      this.inbound.reply.drained(resume)
      return false
    }
    this.chunks.push(chunk)
    this.length += chunk.length
    this.hold(chunk.length)
    if (this.length > this.context.limits.maxRewriteBytes) return this.tooLarge(resume)
    return true
  }

  private tooLarge(resume: () => void): boolean {
    const { engine } = this.context
    if (this.supplier.inactiveSeats.size > 0) {
      this.sent?.abort()
      this.noBid('unreadable')
      return true
    }
    if (this.read) engine.untouched(this.supplier.id, 'too_large')
    const [first, ...rest] = this.chunks
    this.stream()
    let flowing = this.inbound.reply.write(first!)
    for (const chunk of rest) flowing = this.inbound.reply.write(chunk)
    this.chunks = []
    if (!flowing) this.inbound.reply.drained(resume)
    return flowing
  }

  private stream(): void {
    this.stage = 'streaming'
    this.inbound.reply.start(this.status, this.message, towardsCaller(this.headers, null, false))
  }

  end(): void {
    this.upstreamMs = performance.now() - this.sentAt
    this.settle(this.status < 500)
    if (this.stage === 'streaming') {
      this.inbound.reply.end()
      this.account(this.status === 204 ? 'no_bid' : 'answer')
    } else if (this.stage === 'keeping') this.look()
  }

  fail(failure: SendFailure): void {
    this.upstreamMs = performance.now() - this.sentAt
    this.settle(false)
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

  private settle(good: boolean | null): void {
    const { endpoint } = this
    if (endpoint === null) return
    endpoint.inFlight--
    this.sent = null
    if (good === null) this.supplier.endpoints.abandoned(endpoint)
    else if (good) this.supplier.endpoints.succeeded(endpoint)
    else this.supplier.endpoints.failed(endpoint)
  }

  // --- look ▸ rewrite ▸ answer ---

  private look(): void {
    const body = this.collected()
    if (!this.read) return this.answer({ kind: 'as_is', body })
    const encoding = encodingOf(header(this.headers, 'content-encoding'))
    if (encoding === null) return this.undecoded(body, 'encoding')
    const limit = this.context.limits.maxRewriteBytes
    const decoded = decodeSync(encoding, body, limit)
    if (decoded === null)
      void decode(encoding, body, limit).then((late) => {
        if (this.stage === 'done') return
        if (late.ok) this.rewrite(body, late.body, late.encoding)
        else this.undecoded(body, late.reason)
      })
    else if (decoded.ok) this.rewrite(body, decoded.body, decoded.encoding)
    else this.undecoded(body, decoded.reason)
  }

  private undecoded(body: Buffer, reason: 'encoding' | 'too_large'): void {
    if (this.supplier.inactiveSeats.size > 0) return this.noBid(unreadableReason)
    this.context.engine.untouched(this.supplier.id, reason)
    this.answer({ kind: 'as_is', body })
  }

  private rewrite(wire: Buffer, body: Buffer, encoding: Encoding): void {
    const turns = this.context.engine.rewriteInTurns({
      supplier: this.supplier.id,
      body,
      request: () => this.decoded,
      inactiveSeats: this.supplier.inactiveSeats,
      cutOnly: !mayBeRead(this.headers),
    })
    const goOn = () => {
      if (this.stage === 'done') return
      const turn = turns.next()
      if (turn.done) this.rewritten(wire, body, encoding, turn.value)
      else setImmediate(goOn)
    }
    goOn()
  }

  private rewritten(
    wire: Buffer,
    body: Buffer,
    encoding: Encoding,
    rewritten: RewrittenAnswer,
  ): void {
    if (rewritten.unreadable) return this.noBid(unreadableReason)
    if (rewritten.removed > 0 && rewritten.left === 0) return this.noBid('inactive')
    if (rewritten.body === body) return this.answer({ kind: 'as_is', body: wire })
    const finished = finishAnswer(rewritten.body, encoding, this.context.recompress)
    if (!(finished instanceof Promise)) return this.answer(finished)
    void finished.then((answer) => {
      if (this.stage !== 'done') this.answer(answer)
    })
  }

  private answer(answer: Answer): void {
    const changed = answer.kind === 'changed'
    const bodiless = this.status === 204 || this.status === 304
    const length = bodiless ? null : answer.body.length
    let headers = towardsCaller(this.headers, length, changed)
    if (changed && answer.decoded) headers = without(headers, 'content-encoding')
    if (this.status === 204) headers = without(headers, 'content-length')
    const { reply } = this.inbound
    if (reply.open) reply.whole(this.status, this.message, headers, bodiless ? null : answer.body)
    this.account(this.status === 204 ? 'no_bid' : 'answer')
  }

  // --- when it does not come to an answer ---

  private noBid(reason: NoBid): void {
    const status = this.supplier.route.onFailure === 'status' ? (statusOf[reason] ?? 204) : 204
    const headers = ['x-bidweir-reason', reason]
    if (status !== 204) headers.push('Content-Length', '0')
    if (this.inbound.reply.open) this.inbound.reply.whole(status, '', headers, null)
    this.account(reason)
  }

  private broken(outcome: Outcome): void {
    this.inbound.reply.destroy()
    this.account(outcome)
  }

  /** The deadline: the caller has its answer now, the upstream request is aborted. */
  expire(): void {
    if (this.stage === 'done') return
    if (this.sent !== null) {
      this.sent.abort()
      this.upstreamMs = performance.now() - this.sentAt
      // A caller's own short tmax says nothing about the endpoint.
      this.settle(this.fullTimeout ? false : null)
    }
    if (this.stage === 'streaming') this.broken('timeout')
    else this.noBid('timeout')
  }

  /** The caller went away. */
  callerGone(): void {
    if (this.stage === 'done') return
    if (this.sent !== null) {
      this.sent.abort()
      this.settle(null)
    }
    this.account('client_abort')
  }

  private hold(bytes: number): void {
    this.held += bytes
    this.context.budget.bytes += bytes
  }

  private account(outcome: Outcome): void {
    this.stage = 'done'
    if (this.timer !== null) clearTimeout(this.timer)
    const { budget } = this.context
    budget.bytes -= this.held
    if (this.admitted) {
      budget.inFlight--
      this.supplier.inFlight--
    }
    const total = performance.now() - this.inbound.arrived
    this.supplier.metrics.finished(outcome, total, this.upstreamMs)
  }
}

function expire(exchange: Exchange): void {
  exchange.expire()
}

function without(headers: string[], wanted: string): string[] {
  const out: string[] = []
  for (let at = 0; at < headers.length; at += 2)
    if (headers[at]!.toLowerCase() !== wanted) out.push(headers[at]!, headers[at + 1]!)
  return out
}
