/**
 * The rewriter: scan ▸ check eligibility ▸ price ▸ splice. It changes only prices, macros and removed seats. If nothing
 * changes, it returns the Buffer that it was given.
 */
import type { Integration, OpdConfig } from '../config.ts'
import type { Pause, RequestSource, RewrittenResponse } from '../engine/types.ts'
import { type Body, createScanner } from '../json/scanner.ts'
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
export function* rewriteInSlices(input: RewriteInput): Generator<Pause, RewrittenResponse> {
  const { body, integration, inactiveSeats } = input
  const removesSeats = inactiveSeats.size > 0
  let reason = input.seatsOnly ? null : skipReason(integration, body)
  const prices = !input.seatsOnly && reason === null
  if (!prices && !removesSeats) return unmodified(body, reason)
  const unparsed = (why: ResponseReason): RewrittenResponse => ({
    ...unmodified(body, reason ?? (prices ? why : null)),
    unreadable: removesSeats,
  })
  const scan = createScanner(body)
  const macros = scan === null || !prices ? null : new Macros(scan)
  const response = scan === null ? 'malformed' : readBidResponse(scan, macros)
  if (scan === null || typeof response === 'string') return unparsed(response as ResponseReason)
  if (prices && !response.hasSeatbid) reason = 'no_seatbid'
  const splices = new Splices()
  let { seats } = response
  let removed = 0
  if (removesSeats) {
    const removal = removeSeats(response, inactiveSeats, splices)
    if (removal === null) return unparsed('malformed')
    seats = removal.kept
    removed = removal.removed
  }
  let left = 0
  const bids = prices ? new BidRewriter(scan.text, input, response, splices) : null
  for (const seat of seats)
    for (const bid of seat.bids) {
      if (bids?.needsRequest(bid)) {
        const request = input.request()
        bids.request = readRequestOf(request instanceof Promise ? yield* wait(request) : request)
      }
      bids?.rewrite(bid, seat)
      if (++left % bidsPerSlice === 0) yield undefined
    }
  // A macro of 19 bytes may become 512 bytes. Without a bound, a response of 4 MB could grow to 100 MB.
  if (splices.growth > maxGrowth) return unparsed('too_large')
  if (removed > 0) reason = null
  if (splices.count > 0)
    return new ChangedResponse(splices.applyTo(scan.text), reason, removed, left)
  return { ...unmodified(body, reason), left }
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

/** The bid request, after it is decoded. A caller that does not wait has none. */
function* wait(decoding: Promise<Body | null>): Generator<Pause, Body | null> {
  let body: Body | null = null
  yield decoding.then((decoded) => {
    body = decoded
  })
  return body
}

/** null: the bid request cannot be parsed. */
const readRequestOf = (body: Body | null): RequestFacts | null =>
  body === null ? null : readRequest(body)

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
  request: RequestFacts | null | undefined

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
