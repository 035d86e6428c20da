/**
 * The rewriter: scan ▸ check eligibility ▸ price ▸ splice. It changes only prices, macros and removed seats. If nothing
 * changes, it returns the Buffer that it was given.
 */

import type { Integration, OpdConfig } from '../config.ts'
import { LongTurn } from '../json/long-document.ts'
import { type Body, shortDocument } from '../json/scanner.ts'
import { unlimitedMemory, type WorkMemory } from '../json/work-memory.ts'
import type { Bid } from '../openrtb/bid.ts'
import { checkEligibility, type Rules } from '../openrtb/eligibility.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readRequest } from '../openrtb/request.ts'
import type { Span } from '../openrtb/response.ts'
import type { Rates } from '../shared/rates.ts'
import type { BidReason, PriceBid, PricedBid, ResponseReason } from '../shared/reasons.ts'
import type { Pause, ResponseToRewrite, RewrittenResponse } from '../types.ts'
import type { RequestDocument, ResponseDocument, SeatBids } from './document.ts'
import { JsonResponse, LongJsonRequest } from './json.ts'
import { ProtobufRequest, ProtobufResponse } from './protobuf.ts'
import { type SplicedBody, Splices } from './splice.ts'

interface RewriteInput extends ResponseToRewrite {
  opd: Integration['opd']
  rates: Rates | null
  base: string
  /** null: OPD is off. */
  price: PriceBid | null
  /** Counts a bid that is left unmodified. */
  onBid?: ((reason: BidReason) => void) | undefined
}

/** Bytes that macros may add to a response. */
const maxGrowth = 16 * 1024 * 1024

/**
 * The result for a response that stays as it is.
 *
 * @param reason null: seats were to be removed, and none is in it
 */
export function unmodified(body: Buffer, reason: ResponseReason | null): RewrittenResponse {
  return { body, reason, removed: 0, left: 0, unreadable: false }
}

/** Why OPD does not parse responses; null: it parses those that may have the macro. */
function skipReason(opd: Integration['opd']): ResponseReason | null {
  if (opd === 'invalid') return 'invalid_config'
  return opd === null || opd.enabled === false ? 'disabled' : null
}

/** Bids priced in one slice: about 1 ms. */
const bidsPerSlice = 50
/** Bytes and replacements of a response that is made at once, as text. */
const longestText = 512 * 1024
const maxSplices = 4000

/**
 * Rewrites a response in slices, so that ten thousand bids do not block the event loop. Most responses take one slice. Call
 * `return` if it is not run to its end: the next long document waits for this one.
 *
 * @param input the body, which must stay unchanged until the end, and the settings
 */
export const rewriteInSlices = (input: RewriteInput): Rewriting => new Rewriting(input)

/** The result; a pause; or null: the next stage follows. */
type Step = RewrittenResponse | Pause | null

const finished = (value: RewrittenResponse) => ({ done: true, value }) as const

/**
 * An iterator of its own, because a generator would take a third of a microsecond more for each response.
 *
 *   start ──▶ read ──▶ bids ──▶ copy, of a long response
 *
 * Each stage takes as many slices as it needs. `document.ts` says what differs between JSON and Protocol Buffers.
 */
class Rewriting implements Iterator<Pause, RewrittenResponse> {
  private readonly input: RewriteInput
  private stage: () => Step = this.start
  private reason: ResponseReason | null = null
  private readonly splices = new Splices()
  /** Bytes of removed seats, in ascending order, and how many of them `splices` has. */
  private removals: readonly Span[] = []
  private removalsAdded = 0
  private seats: readonly SeatBids[] = []
  private removed = 0
  private visited = 0
  /** The next bid: the index of its seat, and its index in that seat. */
  private seatAt = 0
  private bidAt = 0
  private readonly document: ResponseDocument
  /** null: no bid is priced. */
  private rules: Rules | null = null
  /** The bid whose macros are being expanded. */
  private priced: PricedBid | null = null
  /** The bid request, read for the first bid that needs it; null: it cannot be read. */
  private request: RequestFacts | null | undefined = undefined
  private requestDocument: RequestDocument | null = null
  /** The bid request, once it is decoded; undefined: it is not. */
  private decoded: Body | null | undefined = undefined
  /** Of long documents in JSON, response and request; null: none is long so far. */
  private turn: LongTurn | null = null
  private output: SplicedBody | null = null

  constructor(input: RewriteInput) {
    const { body, format } = input
    this.input = input
    const isProtobuf = format === 'protobuf'
    if (!isProtobuf && body.length > shortDocument) this.turn = new LongTurn()
    this.document = isProtobuf
      ? new ProtobufResponse(body, this.memory)
      : new JsonResponse(body, this.memory, this.turn)
  }

  next(): IteratorResult<Pause, RewrittenResponse> {
    for (;;) {
      const step = this.stage()
      if (step === null) continue
      if (step === undefined || step instanceof Promise) return { done: false, value: step }
      this.turn?.leave()
      return finished(step)
    }
  }

  /** Gives up: the result is not needed. */
  return(): IteratorResult<Pause, RewrittenResponse> {
    this.turn?.leave()
    return finished(unmodified(this.input.body, null))
  }

  private get memory(): WorkMemory {
    return this.input.memory ?? unlimitedMemory
  }

  /** Whether bids are priced. */
  private get prices(): boolean {
    return !this.input.seatsOnly && this.reason === null
  }

  private start(): Step {
    const { body, opd, seatsOnly, inactiveSeats, rates, base } = this.input
    if (!seatsOnly) this.reason ??= skipReason(opd)
    if (this.prices) {
      const mayHaveMacro = this.document.mayHaveMacro()
      if (mayHaveMacro === 'more') return undefined
      if (!mayHaveMacro) this.reason = 'no_macro'
    }
    if (this.prices) this.rules = { opd: opd as OpdConfig, rates, base }
    else if (inactiveSeats.size === 0) return unmodified(body, this.reason)
    this.stage = this.read
    return null
  }

  // --- the response ---

  private read(): Step {
    const state = this.document.read(this.prices)
    if (state === 'more') return undefined
    if (state instanceof Promise) return state
    return state === 'complete' ? this.responseRead() : this.unread(state)
  }

  /** All of it is read: removes seats. */
  private responseRead(): Step {
    const { document } = this
    const { inactiveSeats } = this.input
    if (this.prices && !document.hasSeats) this.reason = 'no_seatbid'
    this.seats = document.seats
    if (inactiveSeats.size > 0) {
      const removal = document.removeSeats(inactiveSeats)
      if (removal === null) return this.unread('malformed')
      this.seats = removal.kept
      this.removed = removal.removed
      this.removals = removal.ranges
    }
    this.stage = this.bids
    return null
  }

  private unread(why: ResponseReason): RewrittenResponse {
    const { body, inactiveSeats } = this.input
    const reason = this.reason ?? (this.input.seatsOnly ? null : why)
    return { ...unmodified(body, reason), unreadable: inactiveSeats.size > 0 }
  }

  // --- the bid request ---

  /** Reads the bid request. Null: it is read, or cannot be; else the call after that reads on. */
  private readRequest(): Step {
    if (this.decoded === undefined) {
      const request = this.input.request()
      if (request instanceof Promise)
        return request.then((decoded) => {
          this.decoded = decoded
        })
      this.decoded = request
    }
    if (this.requestDocument === null && !this.openRequest(this.decoded)) return null
    const document = this.requestDocument!
    const state = document.read()
    if (state === 'more') return undefined
    if (state instanceof Promise) return state
    this.request = state === 'complete' ? document.facts : null
    return null
  }

  /** False: nothing of it remains to be read. */
  private openRequest(body: Body | null): boolean {
    const isJson = this.input.requestFormat !== 'protobuf'
    if (body === null) this.request = null
    else if (isJson && body.length <= shortDocument) this.request = readRequest(body)
    else {
      const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
      if (isJson) {
        this.turn ??= new LongTurn()
        this.requestDocument = new LongJsonRequest(bytes, this.memory, this.turn)
      } else this.requestDocument = new ProtobufRequest(bytes, this.memory)
      return true
    }
    return false
  }

  // --- the bids ---

  private bids(): Step {
    const { seats, splices, document } = this
    for (; this.seatAt < seats.length; this.seatAt++, this.bidAt = 0) {
      const seat = seats[this.seatAt]!
      const { bids } = seat
      while (this.bidAt < bids.length) {
        const bid = bids[this.bidAt]!
        if (this.rules !== null) {
          const step = this.priced === null ? this.price(bid, seat, this.rules) : null
          if (step !== null) return step
          if (this.priced !== null && !document.expand(bid, this.priced, splices)) {
            if (splices.growth > maxGrowth) return this.unread('too_large')
            return undefined
          }
          this.priced = null
        }
        this.bidAt++
        if (++this.visited % bidsPerSlice !== 0) continue
        if (splices.growth > maxGrowth) return this.unread('too_large')
        return undefined
      }
    }
    document.finish(splices)
    this.removeUpTo(Number.POSITIVE_INFINITY)
    return this.result()
  }

  /** Adds the removals that begin before a position. */
  private removeUpTo(position: number): void {
    const { removals, splices } = this
    for (; this.removalsAdded < removals.length; this.removalsAdded++) {
      const { start, end } = removals[this.removalsAdded]!
      if (start >= position) return
      splices.addReplacement(start, end, '')
    }
  }

  /** Macro ▸ eligibility ▸ price. Null: the bid is priced, or left unmodified; else the call after that goes on. */
  private price(bid: Bid, seat: SeatBids, rules: Rules): Step {
    const { price, onBid } = this.input
    const hasMacro = this.document.hasMacro(bid)
    if (hasMacro === 'more') return undefined
    if (hasMacro && this.request === undefined) {
      const step = this.readRequest()
      if (this.request === undefined) return step
    }
    if (price === null) return null
    const eligibility = hasMacro
      ? checkEligibility(bid, this.request ?? null, rules)
      : ({ reason: 'no_macro' } as const)
    if ('reason' in eligibility) onBid?.(eligibility.reason)
    else {
      this.removeUpTo(seat.start)
      this.priced = price(eligibility.bid)
    }
    return null
  }

  // --- the result ---

  private result(): Step {
    const { splices, removed, visited } = this
    const { body } = this.input
    // A macro of 19 bytes may become 512 bytes. Without a bound, a response of 4 MB could grow to 100 MB.
    if (splices.growth > maxGrowth) return this.unread('too_large')
    const reason = removed > 0 ? null : this.reason
    if (splices.count === 0) return { ...unmodified(body, reason), left: visited }
    const length = body.length + splices.growth
    if (body.length > shortDocument && !this.memory.reserve(length)) return this.unread('too_large')
    if (length <= longestText && splices.count <= maxSplices)
      return new ChangedResponse(splices.applyTo(this.document.text), reason, removed, visited)
    this.output = splices.slicesOf(body)
    this.stage = this.copy
    return null
  }

  private copy(): Step {
    const { output, removed, visited } = this
    if (!output!.copy()) return undefined
    const reason = removed > 0 ? null : this.reason
    return { body: output!.bytes, reason, removed, left: visited, unreadable: false }
  }
}

/** A response that was changed: text, and bytes if the caller needs them. */
class ChangedResponse implements RewrittenResponse {
  readonly text: string
  readonly reason: ResponseReason | null
  readonly removed: number
  readonly left: number
  readonly unreadable = false
  private bytes: Buffer | null = null

  constructor(text: string, reason: ResponseReason | null, removed: number, left: number) {
    this.text = text
    this.reason = reason
    this.removed = removed
    this.left = left
  }

  get body(): Buffer {
    this.bytes ??= Buffer.from(this.text, 'latin1')
    return this.bytes
  }
}
