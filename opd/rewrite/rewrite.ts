/**
 * The rewriter: scan ▸ check eligibility ▸ price ▸ splice. It changes only prices, macros and removed seats. If nothing
 * changes, it returns the Buffer that it was given.
 */
import type { Integration, OpdConfig } from '../config.ts'
import type { Pause, RequestSource, RewrittenResponse } from '../engine/types.ts'
import { type Body, createScanner, type Scanner } from '../json/scanner.ts'
import { detach } from '../json/strings.ts'
import { type BidView, checkEligibility, type Rules } from '../openrtb/eligibility.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readRequest } from '../openrtb/request.ts'
import {
  type BidSpans,
  type ResponseSpans,
  readBidResponse,
  type SeatSpans,
} from '../openrtb/response.ts'
import type { BidReason, PriceBid, PricedBid, ResponseReason } from '../pricing/types.ts'
import type { Rates } from '../shared/rates.ts'
import { type MacroSpan, Macros } from './macros.ts'
import { removeSeats } from './seats.ts'
import { Splices } from './splice.ts'

interface RewriteInput {
  /** The decoded body of the bid response. */
  body: Buffer
  /** Called only if a bid is to be priced. */
  request: RequestSource
  integration: Integration
  inactiveSeats: ReadonlySet<string>
  rates: Rates | null
  base: string
  price: PriceBid
  /** Counts a bid that is left unmodified. */
  onBid?: (reason: BidReason) => void
  /** Remove seats and price nothing. */
  seatsOnly?: boolean
}

const marker = Buffer.from('SVC_OPD_CONTEXT')
const unicodeEscape = Buffer.from('\\u00')

/** Whether a response may contain the macro, as bytes or as escapes. Takes 0.2 us if it does not. */
function mayHaveMacro(body: Buffer): boolean {
  return body.includes(marker) || body.includes(unicodeEscape)
}

/** Bytes that macros may add to a response. */
const maxGrowth = 16 * 1024 * 1024

function unmodified(body: Buffer, reason: ResponseReason | null): RewrittenResponse {
  return { body, reason, removed: 0, left: 0, unreadable: false }
}

/** Why OPD does not parse a response; null: it parses it. */
function skipReason({ opd }: Integration, body: Buffer): ResponseReason | null {
  if (opd === 'invalid') return 'invalid_config'
  if (opd === null || opd.enabled === false) return 'disabled'
  return mayHaveMacro(body) ? null : 'no_macro'
}

/** Rewrites a response synchronously. */
export function rewrite(input: RewriteInput): RewrittenResponse {
  const slices = rewriteInSlices(input)
  for (;;) {
    const slice = slices.next()
    if (slice.done) return slice.value
  }
}

/** Bids priced in one slice: about 1 ms. */
const bidsPerSlice = 50

/** The same in slices, so that ten thousand bids do not block the event loop; most responses take one slice. */
export const rewriteInSlices = (input: RewriteInput): Iterator<Pause, RewrittenResponse> =>
  new Rewriting(input)

/** Written out: a generator, and what it keeps between two calls, would take a third of a microsecond for each response. */
class Rewriting implements Iterator<Pause, RewrittenResponse> {
  private readonly input: RewriteInput
  private scan: Scanner | null = null
  private reason: ResponseReason | null = null
  private readonly splices = new Splices()
  private seats: readonly SeatSpans[] = []
  private removed = 0
  private left = 0
  private bids: BidRewriter | null = null
  /** The bid that is next: its seat, and its place there. */
  private seatAt = 0
  private bidAt = 0
  /** The bid request is being decoded. A caller that does not wait has none. */
  private isDecoding = false
  private decoded: Body | null = null

  constructor(input: RewriteInput) {
    this.input = input
  }

  next(): IteratorResult<Pause, RewrittenResponse> {
    const whole = this.scan === null ? this.read() : null
    if (whole !== null) return { done: true, value: whole }
    const { seats, bids } = this
    for (; this.seatAt < seats.length; this.seatAt++, this.bidAt = 0) {
      const seat = seats[this.seatAt]!
      while (this.bidAt < seat.bids.length) {
        const bid = seat.bids[this.bidAt]!
        if (bids?.needsRequest(bid)) {
          const decoding = this.readRequest(bids)
          if (decoding !== null) return { done: false, value: decoding }
        }
        bids?.rewrite(bid, seat)
        this.bidAt++
        if (++this.left % bidsPerSlice === 0) return { done: false, value: undefined }
      }
    }
    return { done: true, value: this.result() }
  }

  /** Reads the response, and removes seats. The result if no bid is to be visited, else null. */
  private read(): RewrittenResponse | null {
    const { body, integration, inactiveSeats, seatsOnly } = this.input
    const removesSeats = inactiveSeats.size > 0
    if (!seatsOnly) this.reason = skipReason(integration, body)
    const prices = !seatsOnly && this.reason === null
    if (!prices && !removesSeats) return unmodified(body, this.reason)
    const scan = createScanner(body)
    if (scan === null) return this.unparsed('malformed', prices)
    const response = readBidResponse(scan, prices ? new Macros(scan) : null)
    if (typeof response === 'string') return this.unparsed(response, prices)
    if (prices && !response.hasSeatbid) this.reason = 'no_seatbid'
    this.seats = response.seats
    if (removesSeats) {
      const removal = removeSeats(response, inactiveSeats, this.splices)
      if (removal === null) return this.unparsed('malformed', prices)
      this.seats = removal.kept
      this.removed = removal.removed
    }
    this.scan = scan
    if (prices) this.bids = new BidRewriter(scan.text, this.input, response, this.splices)
    return null
  }

  private unparsed(why: ResponseReason, prices: boolean): RewrittenResponse {
    const { body, inactiveSeats } = this.input
    const reason = this.reason ?? (prices ? why : null)
    return { ...unmodified(body, reason), unreadable: inactiveSeats.size > 0 }
  }

  /** Reads the bid request for `bids`. A promise if it is being decoded: then it is read by the call after that. */
  private readRequest(bids: BidRewriter): Promise<void> | null {
    const request = this.isDecoding ? this.decoded : this.input.request()
    if (!(request instanceof Promise)) {
      bids.request = request === null ? null : readRequest(request)
      return null
    }
    this.isDecoding = true
    return request.then((decoded) => {
      this.decoded = decoded
    })
  }

  private result(): RewrittenResponse {
    const { splices, removed, left } = this
    // A macro of 19 bytes may become 512 bytes. Without a bound, a response of 4 MB could grow to 100 MB.
    if (splices.growth > maxGrowth) return this.unparsed('too_large', this.bids !== null)
    const reason = removed > 0 ? null : this.reason
    if (splices.count > 0)
      return new ChangedResponse(splices.applyTo(this.scan!.text), reason, removed, left)
    return { ...unmodified(this.input.body, reason), left }
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

/** Rewrites the bids of one response: check eligibility ▸ price ▸ splice. */
class BidRewriter {
  private readonly text: string
  private readonly input: RewriteInput
  private readonly splices: Splices
  private readonly rules: Rules
  private readonly currency: string | null
  private readonly ambiguous: boolean
  private readonly macros: Macros
  /** Parsed for the first bid that needs it; null: it cannot be parsed. */
  request: RequestFacts | null | undefined = undefined

  constructor(text: string, input: RewriteInput, response: ResponseSpans, splices: Splices) {
    this.text = text
    this.input = input
    this.splices = splices
    const opd = input.integration.opd as OpdConfig
    this.rules = { opd, rates: input.rates, base: input.base }
    this.currency = response.currency
    this.macros = response.macros!
    this.ambiguous = response.repeatedCur || response.repeatedSeatbid
  }

  needsRequest(bid: BidSpans): boolean {
    return bid.hasMacro && this.request === undefined
  }

  rewrite(bid: BidSpans, seat: SeatSpans): void {
    if (!bid.hasMacro) return this.input.onBid?.('no_macro')
    const eligibility = checkEligibility(this.view(bid, seat), this.request ?? null, this.rules)
    if ('reason' in eligibility) return this.input.onBid?.(eligibility.reason)
    const priced = this.input.price(eligibility.bid)
    if (priced.priceText !== null)
      this.splices.add(bid.price!.start, bid.price!.end, priced.priceText)
    this.expand(bid.nurl, priced)
    this.expand(bid.burl, priced)
    this.expand(bid.lurl, priced)
    this.expand(bid.adm, priced)
  }

  private expand(span: MacroSpan | null, priced: PricedBid): void {
    if (span !== null) this.macros.expand(span, priced, this.splices)
  }

  private view(bid: BidSpans, seat: SeatSpans): BidView {
    return {
      bidId: typeof bid.id === 'string' ? bid.id : bid.idText,
      impid: bid.impid,
      dealid: bid.dealid,
      mtype: bid.mtype,
      dur: bid.dur,
      width: bid.width,
      height: bid.height,
      adomain: bid.adomain,
      seat: typeof seat.name === 'string' ? seat.name : null,
      priceText:
        bid.price === null ? null : detach(this.text.slice(bid.price.start, bid.price.end)),
      currency: this.currency,
      ambiguous: bid.ambiguous || seat.repeatedName || seat.repeatedBid || this.ambiguous,
    }
  }
}
