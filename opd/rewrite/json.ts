/** A bid response and a bid request in JSON, as the rewriter reads them. A short one is read at once. */
import { LongDocument, type LongTurn } from '../json/long-document.ts'
import { createScanner, type Scanner } from '../json/scanner.ts'
import type { WorkMemory } from '../json/work-memory.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readRequestFacts } from '../openrtb/request.ts'
import {
  type BidSpans,
  type MacroSpan,
  type ResponseSpans,
  readBidResponse,
  type SeatSpans,
  type Span,
} from '../openrtb/response.ts'
import type { PricedBid } from '../shared/reasons.ts'
import {
  contextMarker,
  macrosPerSlice,
  type ReadState,
  type Removal,
  type RequestDocument,
  type ResponseDocument,
} from './document.ts'
import { Macros } from './macros.ts'
import { removeSeats } from './seats.ts'
import type { Splices } from './splice.ts'

const unicodeEscape = Buffer.from('\\u00')

/** Bytes that are searched for escapes at once: 2 ms if all are backslashes. */
const searchLength = 256 * 1024

export class JsonResponse implements ResponseDocument<SeatSpans> {
  text = ''
  private readonly body: Buffer
  private readonly memory: WorkMemory
  private readonly turn: LongTurn | null
  private response: ResponseSpans | null = null
  /** null: no bid is priced. */
  private macros: Macros | null = null
  /** null: the body is short, or `turn` was not taken yet. */
  private document: LongDocument | null = null
  /** The position in the body, or in a string, that is searched; 0: its start. */
  private searchFrom = 0
  /** Of the bid that is expanded: its price and its strings with macros; null: none is. */
  private spans: (Span | MacroSpan)[] | null = null
  /** The position in `spans`, and in the macros of that one. */
  private spanAt = 0
  private macroAt = 0

  /** @param turn null: the body is a short document */
  constructor(body: Buffer, memory: WorkMemory, turn: LongTurn | null) {
    this.body = body
    this.memory = memory
    this.turn = turn
  }

  /** A response without the contextMarker may contain the macro as escapes. Takes 0.2 us for 3 KB. */
  mayHaveMacro(): boolean | 'more' {
    const { body } = this
    if (this.searchFrom === 0 && body.includes(contextMarker)) return true
    const end = this.searchFrom + searchLength
    const part = body.length <= searchLength ? body : body.subarray(this.searchFrom, end)
    const isFound = part.includes(unicodeEscape)
    const isMore = !isFound && end < body.length
    this.searchFrom = isMore ? end - unicodeEscape.length : 0
    return isMore ? 'more' : isFound
  }

  read(prices: boolean): ReadState {
    if (this.turn !== null) return this.readLong(this.turn, prices)
    const scan = createScanner(this.body)
    if (scan === null) return 'malformed'
    return this.readHead(scan, prices).tooLarge ? 'too_large' : 'complete'
  }

  /** Index ▸ seats and bids: only one document at a time is long. */
  private readLong(turn: LongTurn, prices: boolean): ReadState {
    if (this.document === null) {
      const waiting = turn.enter()
      if (waiting !== null) return waiting
      this.document = new LongDocument(this.body, this.memory)
    }
    const { document } = this
    if (this.response === null) {
      const state = document.index()
      if (state !== 'complete') return state
      this.readHead(document.scan!, prices)
    }
    const response = this.response!
    const state = response.tooLarge ? 'too_large' : document.read()
    return state === 'complete' && response.tooLarge ? 'too_large' : state
  }

  private readHead(scan: Scanner, prices: boolean): ResponseSpans {
    if (prices) this.macros = new Macros(scan)
    this.text = scan.text
    this.response = readBidResponse(scan, this.macros)
    return this.response
  }

  get hasSeats(): boolean {
    return this.response!.hasSeatbid
  }

  get seats(): readonly SeatSpans[] {
    return this.response!.seats
  }

  removeSeats(inactive: ReadonlySet<string>): Removal<SeatSpans> | null {
    return removeSeats(this.response!, inactive)
  }

  hasMacro(bid: BidSpans): boolean | 'more' {
    const { unsearched } = bid
    if (unsearched === null) return bid.hasMacro
    const [span] = unsearched as [MacroSpan]
    const found = this.macros!.searchContext(span, Math.max(this.searchFrom, span.start + 1))
    this.searchFrom = typeof found === 'number' ? found : 0
    if (found === true) bid.hasMacro = true
    if (found === false) unsearched.shift()
    const isKnown = bid.hasMacro || unsearched.length === 0
    if (isKnown) bid.unsearched = null
    return isKnown ? bid.hasMacro : 'more'
  }

  expand(bid: BidSpans, priced: PricedBid, splices: Splices): boolean {
    this.spans ??= spansOf(bid)
    const { spans } = this
    for (; this.spanAt < spans.length; this.spanAt++) {
      const span = spans[this.spanAt]!
      if (span === bid.price) {
        if (priced.priceText !== null)
          splices.addReplacement(span.start, span.end, priced.priceText)
        continue
      }
      const { macroAt } = this
      const next = this.macros!.expand(span as MacroSpan, priced, splices, macroAt, macrosPerSlice)
      this.macroAt = Math.max(next, 0)
      if (next >= 0) return false
    }
    this.spans = null
    this.spanAt = 0
    return true
  }

  finish(): void {}
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
  let index = spans.length
  for (; index > 0 && spans[index - 1]!.start > span.start; index--)
    spans[index] = spans[index - 1]!
  spans[index] = span
}

/** A bid request that is longer than a short document. */
export class LongJsonRequest implements RequestDocument {
  facts: RequestFacts | null = null
  private readonly body: Buffer
  private readonly memory: WorkMemory
  private readonly turn: LongTurn
  private document: LongDocument | null = null

  /** `turn`: that of the response, which has been read. */
  constructor(body: Buffer, memory: WorkMemory, turn: LongTurn) {
    this.body = body
    this.memory = memory
    this.turn = turn
  }

  read(): ReadState {
    if (this.document === null) {
      const turn = this.turn.enter()
      if (turn !== null) return turn
      this.document = new LongDocument(this.body, this.memory)
    }
    const { document } = this
    if (this.facts === null) {
      const state = document.index()
      if (state !== 'complete') return state
      this.facts = readRequestFacts(document.scan!)
      if (this.facts === null) return 'malformed'
    }
    return document.read()
  }
}
