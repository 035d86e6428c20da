/**
 * The rewriter: scan ▸ judge ▸ price ▸ splice. Bytes that are not a price, a macro or a removed seat leave as
 * they came; where nothing is to change the very Buffer that came goes back.
 */
import type { Integration, OpdConfig } from '../config.ts'
import type { RequestSource, RewrittenAnswer, Turn } from '../engine/types.ts'
import { scannerOf } from '../json/scanner.ts'
import { own } from '../json/strings.ts'
import { type BidView, judge, type Rules } from '../openrtb/eligibility.ts'
import { type RequestFacts, readRequest } from '../openrtb/request.ts'
import { type AnswerSpans, type BidSpans, readAnswer, type SeatSpans } from '../openrtb/response.ts'
import type { AnswerReason, BidReason, PriceBid } from '../pricing/types.ts'
import type { Rates } from '../shared/rates.ts'
import { expand, PatternFinder } from './macros.ts'
import { cutSeats } from './seats.ts'
import { grownLength, type Splice, splice } from './splice.ts'

export interface RewriteInput {
  /** The answer, decoded. */
  body: Buffer
  /** The bid request, decoded; asked for only when a bid wants a price. */
  request: RequestSource
  integration: Integration
  inactiveSeats: ReadonlySet<string>
  rates: Rates | null
  base: string
  price: PriceBid
  /** Counts a bid that is left alone. */
  onBid?: (reason: BidReason) => void
  /** Only cut seats. */
  cutOnly?: boolean
}

const marker = Buffer.from('SVC_OPD_CONTEXT')
const escaped = Buffer.from('\\u00')

/** An answer may hold the macro: as bytes, or spelled by escapes. 0.2 us where it does not. */
function mayHoldMarker(body: Buffer): boolean {
  return body.includes(marker) || body.includes(escaped)
}

/** Bytes that macros may add to an answer. */
const mostGrowth = 16 * 1024 * 1024

function untouched(body: Buffer, reason: AnswerReason | null): RewrittenAnswer {
  return { body, reason, removed: 0, left: 0, unreadable: false }
}

/** Why OPD leaves an answer alone without a look into it; null: it does not. */
function leftAlone({ opd }: Integration, body: Buffer): AnswerReason | null {
  if (opd === 'invalid') return 'invalid_config'
  if (opd === null || opd.enabled === false) return 'disabled'
  return mayHoldMarker(body) ? null : 'no_macro'
}

/** The whole answer at once. */
export function rewrite(input: RewriteInput): RewrittenAnswer {
  const turns = rewriteInTurns(input)
  for (;;) {
    const turn = turns.next()
    if (turn.done) return turn.value
  }
}

/** Bids priced before a turn ends: about 1 ms. */
const bidsPerTurn = 50

/** The same in turns, so that ten thousand bids need not hold the event loop; most answers take one. */
export function* rewriteInTurns(input: RewriteInput): Generator<Turn, RewrittenAnswer> {
  const { body, integration, inactiveSeats } = input
  const cuts = inactiveSeats.size > 0
  let reason = input.cutOnly ? null : leftAlone(integration, body)
  const prices = !input.cutOnly && reason === null
  if (!prices && !cuts) return untouched(body, reason)
  const unread = (why: AnswerReason): RewrittenAnswer => ({
    ...untouched(body, reason ?? (prices ? why : null)),
    unreadable: cuts,
  })
  const scan = scannerOf(body)
  const finder = scan === null || !prices ? null : new PatternFinder(scan.text)
  const answer = scan === null ? 'malformed' : readAnswer(scan, finder)
  if (scan === null || typeof answer === 'string') return unread(answer as AnswerReason)
  if (prices && !answer.listed) reason = 'no_seatbid'
  const splices: Splice[] = []
  let { seats } = answer
  let removed = 0
  if (cuts) {
    const cut = cutSeats(answer, inactiveSeats, splices)
    if (cut === null) return unread('malformed')
    seats = cut.kept
    removed = cut.removed
  }
  let left = 0
  const bids = prices ? new Bids(scan.text, input, answer, splices) : null
  for (const seat of seats)
    for (const bid of seat.bids) {
      if (bids?.wantsRequest(bid)) bids.request = yield* requestOf(input)
      bids?.one(bid, seat)
      if (++left % bidsPerTurn === 0) yield undefined
    }
  // 19 bytes of a macro may become 512: a foreign answer must not make a hundred megabytes of four.
  if (grownLength(body, splices) > body.length + mostGrowth) return unread('too_large')
  return {
    body: splices.length === 0 ? body : splice(body, splices),
    reason: removed === 0 ? reason : null,
    removed,
    left,
    unreadable: false,
  }
}

/** The request's facts, waited for where it is still being decoded; null: it cannot be read. */
function* requestOf({ request }: RewriteInput): Generator<Turn, RequestFacts | null> {
  let body = request()
  if (body instanceof Promise) {
    const late = body
    body = null
    yield late.then((decoded) => {
      body = decoded
    })
  }
  return body === null ? null : readRequest(body)
}

/** The bids of one answer on their way through judge ▸ price ▸ splice. */
class Bids {
  private readonly text: string
  private readonly input: RewriteInput
  private readonly splices: Splice[]
  private readonly rules: Rules
  private readonly currency: string | null
  private readonly ambiguous: boolean
  private readonly escapes: boolean
  /** Read for the first bid that wants it; null: it cannot be read. */
  request: RequestFacts | null | undefined

  constructor(text: string, input: RewriteInput, answer: AnswerSpans, splices: Splice[]) {
    this.text = text
    this.input = input
    this.splices = splices
    const opd = input.integration.opd as OpdConfig
    this.rules = { opd, rates: input.rates, base: input.base }
    this.currency = answer.currency
    this.escapes = answer.finder?.escapes ?? false
    this.ambiguous = answer.twoCurrencies || answer.twoLists
  }

  wantsRequest(bid: BidSpans): boolean {
    return bid.pattern && this.request === undefined
  }

  one(bid: BidSpans, seat: SeatSpans): void {
    if (!bid.pattern) return this.input.onBid?.('no_macro')
    const verdict = judge(this.view(bid, seat), this.request ?? null, this.rules)
    if ('reason' in verdict) return this.input.onBid?.(verdict.reason)
    const priced = this.input.price(verdict.bid)
    if (priced.priceText !== null)
      this.splices.push({ start: bid.price!.start, end: bid.price!.end, text: priced.priceText })
    for (const span of [bid.adm, bid.nurl, bid.burl, bid.lurl])
      if (span !== null)
        expand(this.text, span.start + 1, span.end - 1, this.escapes, priced, this.splices)
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
      priceText: bid.price === null ? null : own(this.text.slice(bid.price.start, bid.price.end)),
      currency: this.currency,
      ambiguous: bid.ambiguous || seat.twoNames || seat.twoLists || this.ambiguous,
    }
  }
}
