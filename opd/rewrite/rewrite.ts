/**
 * The rewriter: scan ▸ check eligibility ▸ price ▸ splice. It changes only prices, macros and removed seats. If nothing
 * changes, it returns the Buffer that it was given.
 */

import type { Integration, OpdConfig } from '../config.ts'
import { LongDocument, LongTurn } from '../json/long-document.ts'
import { type Body, createScanner, type Scanner, shortDocument } from '../json/scanner.ts'
import { unlimitedMemory, type WorkMemory } from '../json/work-memory.ts'
import { checkEligibility, type Rules } from '../openrtb/eligibility.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readRequest, readRequestFacts } from '../openrtb/request.ts'
import {
  type BidSpans,
  type MacroSpan,
  type ResponseSpans,
  readBidResponse,
  type SeatSpans,
  type Span,
} from '../openrtb/response.ts'
import type { Rates } from '../shared/rates.ts'
import type { BidReason, PriceBid, PricedBid, ResponseReason } from '../shared/reasons.ts'
import type { Pause, ResponseToRewrite, RewrittenResponse } from '../types.ts'
import { Macros } from './macros.ts'
import { removeSeats } from './seats.ts'
import { type SplicedBody, Splices } from './splice.ts'

interface RewriteInput extends Omit<ResponseToRewrite, 'supplier'> {
  opd: Integration['opd']
  rates: Rates | null
  base: string
  /** null: OPD is off. */
  price: PriceBid | null
  /** Counts a bid that is left unmodified. */
  onBid?: ((reason: BidReason) => void) | undefined
}

const marker = Buffer.from('SVC_OPD_CONTEXT')
const unicodeEscape = Buffer.from('\\u00')

/** Bytes that are searched for escapes at once: 2 ms if all are backslashes. */
const searchLength = 256 * 1024

/** Bytes that macros may add to a response. */
const maxGrowth = 16 * 1024 * 1024

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
/** Macros of one bid that are expanded in one slice. */
const macrosPerSlice = 2000

/**
 * Rewrites a response in slices, so that ten thousand bids do not block the event loop. Most responses take one slice. Call
 * `return` if it is not run to its end: the next long document waits for this one.
 */
export const rewriteInSlices = (input: RewriteInput): Rewriting => new Rewriting(input)

/** The result; a pause; or null: the next stage follows. */
type Step = RewrittenResponse | Pause | null

const finished = (value: RewrittenResponse) => ({ done: true, value }) as const

/** A bid whose macros are being expanded. */
interface Expansion {
  priced: PricedBid
  /** Its price and its strings with macros, in the order of the body. */
  spans: (Span | MacroSpan)[]
  /** The position in `spans`, and in the macros of that one. */
  at: number
  macro: number
}

/**
 * An iterator of its own, because a generator would take a third of a microsecond more for each response.
 *
 *   start ──▶ searchEscapes ──▶ bids                           a short response
 *   start ──▶ searchEscapes ──▶ enter ──▶ index ──▶ read ──▶ bids ──▶ copy       a long one: only one document at a time is long
 *             bids ──▶ enterForRequest ──▶ indexRequest ──▶ readLongRequest ──▶ bids       a long request
 */
class Rewriting implements Iterator<Pause, RewrittenResponse> {
  private readonly input: RewriteInput
  private stage: () => Step = this.start
  private reason: ResponseReason | null = null
  private readonly splices = new Splices()
  /** Bytes of removed seats, in ascending order, and how many of them `splices` has. */
  private removals: readonly Span[] = []
  private removalsAdded = 0
  private seats: readonly SeatSpans[] = []
  private removed = 0
  private visited = 0
  /** The next bid: the index of its seat, and its index in that seat. */
  private seatAt = 0
  private bidAt = 0
  /** null: no bid is priced. */
  private macros: Macros | null = null
  private rules: Rules | null = null
  private response: ResponseSpans | null = null
  /** The response as text, once it is read. */
  private text = ''
  private expansion: Expansion | null = null
  /** The position in the body, or in a string, that is searched; 0: its start. */
  private searchFrom = 0
  /** The bid request, read for the first bid that needs it; null: it cannot be read. */
  private request: RequestFacts | null | undefined = undefined
  /** The bid request is being decoded; `decoded` is its result. */
  private isDecoding = false
  private decoded: Body | null = null
  /** Of a long document; null: there was none. */
  private turn: LongTurn | null = null
  private document: LongDocument | null = null
  private output: SplicedBody | null = null

  constructor(input: RewriteInput) {
    this.input = input
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
    const { body, opd, seatsOnly } = this.input
    if (!seatsOnly) this.reason = skipReason(opd)
    if (!this.prices || body.includes(marker)) return this.open()
    this.stage = this.searchEscapes
    return null
  }

  /** Whether a response without the marker may contain the macro as escapes. Takes 0.2 us for 3 KB. */
  private searchEscapes(): Step {
    const { body } = this.input
    const end = this.searchFrom + searchLength
    const part = body.length <= searchLength ? body : body.subarray(this.searchFrom, end)
    const isFound = part.includes(unicodeEscape)
    if (!isFound && end < body.length) {
      this.searchFrom = end - unicodeEscape.length
      return undefined
    }
    this.searchFrom = 0
    if (!isFound) this.reason = 'no_macro'
    return this.open()
  }

  private open(): Step {
    const { body, inactiveSeats } = this.input
    if (!this.prices && inactiveSeats.size === 0) return unmodified(body, this.reason)
    if (body.length > shortDocument) return this.takeTurn(this.enter)
    const scan = createScanner(body)
    if (scan === null) return this.unread('malformed')
    return this.readHead(scan) ?? this.responseRead(scan)
  }

  /** The stage after the turn was taken. */
  private takeTurn(next: () => Step): Step {
    this.turn ??= new LongTurn()
    this.stage = next
    return this.turn.enter()
  }

  // --- a long response ---

  private enter(): Step {
    this.document = new LongDocument(this.input.body, this.memory)
    this.stage = this.index
    return null
  }

  private index(): Step {
    const state = this.document!.index()
    if (state === 'more') return undefined
    if (state !== 'complete') return this.unread(state)
    this.stage = this.read
    return this.readHead(this.document!.scan!)
  }

  private read(): Step {
    const document = this.document!
    const state = this.response!.tooLarge ? 'too_large' : document.read()
    if (state === 'more') return undefined
    if (state === 'too_large') return this.unread(state)
    return this.responseRead(document.scan!)
  }

  // --- the response ---

  private readHead(scan: Scanner): Step {
    const { opd, rates, base } = this.input
    if (this.prices) {
      this.macros = new Macros(scan)
      this.rules = { opd: opd as OpdConfig, rates, base }
    }
    this.response = readBidResponse(scan, this.macros)
    return null
  }

  /** All of it is read: removes seats. */
  private responseRead(scan: Scanner): Step {
    const response = this.response!
    const { inactiveSeats } = this.input
    if (response.tooLarge) return this.unread('too_large')
    if (this.prices && !response.hasSeatbid) this.reason = 'no_seatbid'
    this.seats = response.seats
    if (inactiveSeats.size > 0) {
      const removal = removeSeats(response, inactiveSeats)
      if (removal === null) return this.unread('malformed')
      this.seats = removal.kept
      this.removed = removal.removed
      this.removals = removal.ranges
    }
    this.text = scan.text
    this.stage = this.bids
    return null
  }

  private unread(why: ResponseReason): RewrittenResponse {
    const { body, inactiveSeats } = this.input
    const reason = this.reason ?? (this.input.seatsOnly ? null : why)
    return { ...unmodified(body, reason), unreadable: inactiveSeats.size > 0 }
  }

  // --- the bid request ---

  /** Reads the bid request. A promise if it is still being decoded: the call after that reads it. */
  private readRequest(): Step {
    const request = this.isDecoding ? this.decoded : this.input.request()
    if (request instanceof Promise) {
      this.isDecoding = true
      return request.then((decoded) => {
        this.decoded = decoded
      })
    }
    if (request === null) this.request = null
    else if (request.length <= shortDocument) this.request = readRequest(request)
    else {
      this.decoded = request
      return this.takeTurn(this.enterForRequest)
    }
    return null
  }

  private enterForRequest(): Step {
    const body = this.decoded!
    const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
    this.document = new LongDocument(bytes, this.memory)
    this.stage = this.indexRequest
    return null
  }

  private indexRequest(): Step {
    const document = this.document!
    const state = document.index()
    if (state === 'more') return undefined
    this.request = state === 'complete' ? readRequestFacts(document.scan!) : null
    this.stage = this.request === null ? this.bids : this.readLongRequest
    return null
  }

  private readLongRequest(): Step {
    const state = this.document!.read()
    if (state === 'more') return undefined
    if (state === 'too_large') this.request = null
    this.stage = this.bids
    return null
  }

  // --- the bids ---

  private bids(): Step {
    const { seats, splices } = this
    for (; this.seatAt < seats.length; this.seatAt++, this.bidAt = 0) {
      const { bids } = seats[this.seatAt]!
      while (this.bidAt < bids.length) {
        const bid = bids[this.bidAt]!
        if (bid.unsearched !== null && !this.search(bid, bid.unsearched)) return undefined
        if (bid.hasMacro && this.request === undefined) {
          const step = this.readRequest()
          if (step !== null || this.request === undefined) return step
        }
        if (this.expansion === null) this.rewrite(bid)
        if (this.expansion !== null && !this.expand(bid, this.expansion)) {
          if (splices.growth > maxGrowth) return this.unread('too_large')
          return undefined
        }
        this.bidAt++
        if (++this.visited % bidsPerSlice !== 0) continue
        if (splices.growth > maxGrowth) return this.unread('too_large')
        return undefined
      }
    }
    this.removeUpTo(Number.POSITIVE_INFINITY)
    return this.result()
  }

  /** Searches a part of the strings of a bid that were not searched. True: it is known whether the bid has the macro. */
  private search(bid: BidSpans, unsearched: MacroSpan[]): boolean {
    const [span] = unsearched as [MacroSpan]
    const found = this.macros!.searchContext(span, Math.max(this.searchFrom, span.start + 1))
    this.searchFrom = typeof found === 'number' ? found : 0
    if (found === true) bid.hasMacro = true
    if (found === false) unsearched.shift()
    const isKnown = bid.hasMacro || unsearched.length === 0
    if (isKnown) bid.unsearched = null
    return isKnown
  }

  /** Adds the removals that begin before a position. */
  private removeUpTo(position: number): void {
    const { removals, splices } = this
    for (; this.removalsAdded < removals.length; this.removalsAdded++) {
      const { start, end } = removals[this.removalsAdded]!
      if (start >= position) return
      splices.add(start, end, '')
    }
  }

  /** Check eligibility ▸ price. */
  private rewrite(bid: BidSpans): void {
    const { macros, rules } = this
    const { price, onBid } = this.input
    if (macros === null || rules === null || price === null) return
    if (!bid.hasMacro) return onBid?.('no_macro')
    const eligibility = checkEligibility(bid, this.request ?? null, rules)
    if ('reason' in eligibility) return onBid?.(eligibility.reason)
    this.removeUpTo(bid.seat.start)
    this.expansion = { priced: price(eligibility.bid), spans: spansOf(bid), at: 0, macro: 0 }
  }

  /** Splices. False: the bid has more macros than fit in a slice. */
  private expand(bid: BidSpans, expansion: Expansion): boolean {
    const { macros, splices } = this
    const { priced, spans } = expansion
    for (; expansion.at < spans.length; expansion.at++) {
      const span = spans[expansion.at]!
      if (span === bid.price) {
        if (priced.priceText !== null) splices.add(span.start, span.end, priced.priceText)
        continue
      }
      const { macro } = expansion
      const next = macros!.expand(span as MacroSpan, priced, splices, macro, macrosPerSlice)
      expansion.macro = Math.max(next, 0)
      if (next >= 0) return false
    }
    this.expansion = null
    return true
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
      return new ChangedResponse(splices.applyTo(this.text), reason, removed, visited)
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

/** The price and the strings with macros of a bid, in the order of the body. */
function spansOf({ price, adm, nurl, burl, lurl }: BidSpans): Span[] {
  const spans: Span[] = []
  insert(spans, price)
  insert(spans, nurl)
  insert(spans, burl)
  insert(spans, lurl)
  insert(spans, adm)
  return spans
}

function insert(spans: Span[], span: Span | null): void {
  if (span === null) return
  let at = spans.length
  for (; at > 0 && spans[at - 1]!.start > span.start; at--) spans[at] = spans[at - 1]!
  spans[at] = span
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
