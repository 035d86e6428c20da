/**
 * The rewriter: scan ▸ check eligibility ▸ price ▸ splice. It changes only prices, macros and removed seats. If nothing
 * changes, it returns the Buffer that it was given.
 */
import type { Integration, OpdConfig } from '../config.ts'
import { type Body, createScanner } from '../json/scanner.ts'
import { checkEligibility, type Rules } from '../openrtb/eligibility.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { readRequest } from '../openrtb/request.ts'
import { type BidSpans, readBidResponse, type SeatSpans } from '../openrtb/response.ts'
import type { Rates } from '../shared/rates.ts'
import type { BidReason, PriceBid, ResponseReason } from '../shared/reasons.ts'
import type { Pause, ResponseToRewrite, RewrittenResponse } from '../types.ts'
import { Macros } from './macros.ts'
import { removeSeats } from './seats.ts'
import { Splices } from './splice.ts'

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

/** Whether a response may contain the macro, as bytes or as escapes. Takes 0.2 us if it does not. */
function mayHaveMacro(body: Buffer): boolean {
  return body.includes(marker) || body.includes(unicodeEscape)
}

/** Bytes that macros may add to a response. */
const maxGrowth = 16 * 1024 * 1024

export function unmodified(body: Buffer, reason: ResponseReason | null): RewrittenResponse {
  return { body, reason, removed: 0, left: 0, unreadable: false }
}

/** Why OPD does not parse a response; null: it parses it. */
function skipReason(opd: Integration['opd'], body: Buffer): ResponseReason | null {
  if (opd === 'invalid') return 'invalid_config'
  if (opd === null || opd.enabled === false) return 'disabled'
  return mayHaveMacro(body) ? null : 'no_macro'
}

/** Bids priced in one slice: about 1 ms. */
const bidsPerSlice = 50

/** Rewrites a response in slices, so that ten thousand bids do not block the event loop. Most responses take one slice. */
export const rewriteInSlices = (input: RewriteInput): Iterator<Pause, RewrittenResponse> =>
  new Rewriting(input)

/** An iterator of its own, because a generator would take a third of a microsecond more for each response. */
class Rewriting implements Iterator<Pause, RewrittenResponse> {
  private readonly input: RewriteInput
  /** The response as text, once it is read. */
  private text: string | null = null
  private reason: ResponseReason | null = null
  private readonly splices = new Splices()
  private seats: readonly SeatSpans[] = []
  private removed = 0
  private visited = 0
  /** The next bid: the index of its seat, and its index in that seat. */
  private seatAt = 0
  private bidAt = 0
  /** null: no bid is priced. */
  private macros: Macros | null = null
  private rules: Rules | null = null
  /** The bid request, read for the first bid that needs it; null: it cannot be read. */
  private request: RequestFacts | null | undefined = undefined
  /** The bid request is being decoded; `decoded` is its result. */
  private isDecoding = false
  private decoded: Body | null = null

  constructor(input: RewriteInput) {
    this.input = input
  }

  next(): IteratorResult<Pause, RewrittenResponse> {
    const whole = this.text === null ? this.read() : null
    if (whole !== null) return { done: true, value: whole }
    const { seats } = this
    for (; this.seatAt < seats.length; this.seatAt++, this.bidAt = 0) {
      const { bids } = seats[this.seatAt]!
      while (this.bidAt < bids.length) {
        const bid = bids[this.bidAt]!
        if (bid.hasMacro && this.request === undefined) {
          const decoding = this.readRequest()
          if (decoding !== null) return { done: false, value: decoding }
        }
        this.rewrite(bid)
        this.bidAt++
        if (++this.visited % bidsPerSlice === 0) return { done: false, value: undefined }
      }
    }
    return { done: true, value: this.result() }
  }

  /** Reads the response and removes seats. Returns the result if no bid has to be visited, else null. */
  private read(): RewrittenResponse | null {
    const { body, opd, inactiveSeats, seatsOnly, rates, base } = this.input
    const removesSeats = inactiveSeats.size > 0
    if (!seatsOnly) this.reason = skipReason(opd, body)
    const prices = !seatsOnly && this.reason === null
    if (!prices && !removesSeats) return unmodified(body, this.reason)
    const scan = createScanner(body)
    if (scan === null) return this.unread('malformed', prices)
    if (prices) {
      this.macros = new Macros(scan)
      this.rules = { opd: opd as OpdConfig, rates, base }
    }
    const response = readBidResponse(scan, this.macros)
    if (response === 'too_large') return this.unread(response, prices)
    if (prices && !response.hasSeatbid) this.reason = 'no_seatbid'
    this.seats = response.seats
    if (removesSeats) {
      const removal = removeSeats(response, inactiveSeats, this.splices)
      if (removal === null) return this.unread('malformed', prices)
      this.seats = removal.kept
      this.removed = removal.removed
    }
    this.text = scan.text
    return null
  }

  private unread(why: ResponseReason, prices: boolean): RewrittenResponse {
    const { body, inactiveSeats } = this.input
    const reason = this.reason ?? (prices ? why : null)
    return { ...unmodified(body, reason), unreadable: inactiveSeats.size > 0 }
  }

  /** Reads the bid request. A promise if it is still being decoded: the call after that reads it. */
  private readRequest(): Promise<void> | null {
    const request = this.isDecoding ? this.decoded : this.input.request()
    if (!(request instanceof Promise)) {
      this.request = request === null ? null : readRequest(request)
      return null
    }
    this.isDecoding = true
    return request.then((decoded) => {
      this.decoded = decoded
    })
  }

  /** Check eligibility ▸ price ▸ splice. */
  private rewrite(bid: BidSpans): void {
    const { macros, rules, splices } = this
    const { price, onBid } = this.input
    if (macros === null || rules === null || price === null) return
    if (!bid.hasMacro) return onBid?.('no_macro')
    const eligibility = checkEligibility(bid, this.request ?? null, rules)
    if ('reason' in eligibility) return onBid?.(eligibility.reason)
    const priced = price(eligibility.bid)
    if (priced.priceText !== null) splices.add(bid.price!.start, bid.price!.end, priced.priceText)
    macros.expand(bid.nurl, priced, splices)
    macros.expand(bid.burl, priced, splices)
    macros.expand(bid.lurl, priced, splices)
    macros.expand(bid.adm, priced, splices)
  }

  private result(): RewrittenResponse {
    const { splices, removed, visited } = this
    // A macro of 19 bytes may become 512 bytes. Without a bound, a response of 4 MB could grow to 100 MB.
    if (splices.growth > maxGrowth) return this.unread('too_large', this.macros !== null)
    const reason = removed > 0 ? null : this.reason
    if (splices.count > 0)
      return new ChangedResponse(splices.applyTo(this.text!), reason, removed, visited)
    return { ...unmodified(this.input.body, reason), left: visited }
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
