/** Reads a BidResponse: byte ranges of its bids, and the values that eligibility depends on. Nothing else is copied. */
import {
  detach,
  KeyTable,
  longestText,
  objectSteps,
  type Read,
  type Scanner,
} from '../json/scanner.ts'
import { type Bid, BidTerms, bidMembers } from './bid.ts'
import { currencyOf } from './facts.ts'

/** A range of bytes; `end` is exclusive. */
export interface Span {
  start: number
  end: number
}

/** A string in the body: its bytes, quotes included. `end` is exclusive. */
export interface MacroSpan extends Span {
  /** Index of the first macro of the body at or after the start of the string. */
  first: number
}

/** Finds the OPD macros in the strings of a body. */
export interface MacroFinder {
  /** A string of the body. It is called with the strings in their order in the body. */
  span(start: number, end: number): MacroSpan
  /** Whether the string contains `svc_opd=${SVC_OPD_CONTEXT}`. null: it is long and has escapes, and is searched later. */
  hasContext(span: MacroSpan): boolean | null
}

/** One bid. A macro field is null if it is not a string (`adm` may be an object), or if no bid is priced. */
export class BidSpans extends BidTerms implements Bid {
  adm: MacroSpan | null = null
  nurl: MacroSpan | null = null
  burl: MacroSpan | null = null
  lurl: MacroSpan | null = null
  price: Span | null = null
  priceText: string | null = null
  /** The text of `id`, if it is a string or a number. */
  bidId = ''
  /** `svc_opd=${SVC_OPD_CONTEXT}` is in `adm`, `nurl` or `burl` (SERVICE 4.8 rule 1). */
  hasMacro = false
  /** Strings that are searched for it later, because they are long and have escapes. */
  unsearched: MacroSpan[] | null = null
  /** A key that eligibility depends on is repeated in the bid. */
  hasRepeatedKey = false
  readonly seat: SeatSpans

  constructor(seat: SeatSpans) {
    super()
    this.seat = seat
  }

  get seatName(): string | null {
    return this.seat.name
  }

  get currency(): string | null {
    return this.seat.response.currency
  }

  get ambiguous(): boolean {
    const { repeatedName, repeatedBid, response } = this.seat
    const isSeatAmbiguous = repeatedName || repeatedBid
    return (
      this.hasRepeatedKey || isSeatAmbiguous || response.repeatedCur || response.repeatedSeatbid
    )
  }
}

/** Where the parts of one `seatbid[]` are in the bytes. */
export class SeatSpans {
  start: number
  end: number
  /** null: not a string. */
  name: string | null = null
  /** The key `seat` is repeated. */
  repeatedName = false
  /** The key `bid` is repeated. */
  repeatedBid = false
  bids: BidSpans[] = []
  /** Whether `bid` has any content, of any type. */
  hasBids = false
  readonly response: ResponseSpans

  constructor(response: ResponseSpans, start: number, end: number) {
    this.response = response
    this.start = start
    this.end = end
  }
}

/** Where the parts of a bid response are in its bytes. */
export class ResponseSpans {
  /** null: of a wrong type, so the currency is unknown. */
  currency: string | null = 'USD'
  seats: SeatSpans[] = []
  /** The document is an object, and its `seatbid` is an array, null or absent. */
  isWellFormed: boolean
  /** `seatbid` is an array. */
  hasSeatbid = false
  /** OpenRTB 3.0: the bids are in `openrtb.response`, which is not read. */
  isOpenRtb3 = false
  repeatedCur = false
  repeatedSeatbid = false
  /** Number of bids, of any type. Beyond `maxBids` no bid is read, and beyond `maxSeats` no seat. */
  bids = 0
  seatCount = 0
  readonly macros: MacroFinder | null

  /** Without `macros`, `hasMacro` of every bid is false. */
  constructor(isObject: boolean, macros: MacroFinder | null) {
    this.isWellFormed = isObject
    this.macros = macros
  }

  get tooLarge(): boolean {
    return this.seatCount > maxSeats || this.bids > maxBids
  }
}

type MacroField = 'adm' | 'nurl' | 'burl' | 'lurl'

/** `decides`: a macro in this field makes the bid eligible. */
const macroField =
  (field: MacroField, decides: boolean): Read<BidSpans> =>
  (scan, bid) => {
    const { macros } = bid.seat.response
    if (macros === null || !scan.isString) return
    const span = macros.span(scan.start, scan.end)
    bid[field] = span
    if (!decides || bid.hasMacro) return
    const hasContext = macros.hasContext(span)
    if (hasContext !== null) bid.hasMacro = hasContext
    else if (bid.unsearched === null) bid.unsearched = [span]
    else bid.unsearched.push(span)
  }

const bidKeys = new KeyTable<BidSpans>(
  {
    ...bidMembers,
    id: (scan, bid) => {
      const value = scan.leaf()
      if (typeof value === 'string') bid.bidId = value
      else if (typeof value === 'number') bid.bidId = detach(scan.source)
    },
    price: (scan, bid) => {
      if (!scan.isNumber || scan.end - scan.start > longestText) return
      bid.price = { start: scan.start, end: scan.end }
      bid.priceText = detach(scan.source)
    },
    adm: macroField('adm', true),
    nurl: macroField('nurl', true),
    burl: macroField('burl', true),
    lurl: macroField('lurl', false),
  },
  (bid, key) => {
    // A size is a feature of the model. Eligibility does not depend on it.
    if (key !== 'w' && key !== 'h') bid.hasRepeatedKey = true
  },
)

/** A bid takes 400 bytes of memory here, and 1.4 million bids fit into a response of 4 MiB. Real responses have at most 200. */
export const maxBids = 50_000
/** CONTRACT 3. */
export const maxSeats = 1000

const readBid: Read<SeatSpans> = (scan, seat) => {
  seat.hasBids = true
  if (++seat.response.bids > maxBids || !scan.isObject) return
  const bid = new BidSpans(seat)
  scan.steps += objectSteps
  seat.bids.push(bid)
  scan.object(bidKeys, bid)
}

const seatKeys = new KeyTable<SeatSpans>(
  {
    seat: (scan, seat) => {
      const value = scan.leaf()
      if (typeof value === 'number') seat.name = scan.source
      else seat.name = typeof value === 'string' ? value : null
    },
    bid: (scan, seat) => {
      if (scan.isArray) scan.array(readBid, seat)
      else if (!scan.isNull) seat.hasBids = true
    },
  },
  (seat, key) => {
    if (key === 'seat') seat.repeatedName = true
    else seat.repeatedBid = true
  },
)

const readSeat: Read<ResponseSpans> = (scan, response) => {
  if (++response.seatCount > maxSeats) return
  scan.steps += objectSteps
  const seat = new SeatSpans(response, scan.start, scan.end)
  response.seats.push(seat)
  scan.object(seatKeys, seat)
}

const responseKeys = new KeyTable<ResponseSpans>(
  {
    cur: (scan, response) => {
      response.currency = currencyOf(scan.leaf())
    },
    seatbid: (scan, response) => {
      response.isWellFormed = scan.isArray || scan.isNull
      if (scan.isArray) response.hasSeatbid = true
      scan.array(readSeat, response)
    },
    openrtb: (scan, response) => {
      response.isOpenRtb3 = scan.isObject
    },
  },
  (response, key) => {
    if (key === 'cur') response.repeatedCur = true
    else response.repeatedSeatbid = true
  },
)

/**
 * A response that is not an object has no bids. The scanner of a long document leaves its seats and bids to `readLists`; the
 * result is right after that, unless it is `tooLarge`.
 *
 * @param scan an indexed document, which must not change meanwhile
 * @param macros finds macros in the fields of a bid; null: they are not looked for
 */
export function readBidResponse(scan: Scanner, macros: MacroFinder | null): ResponseSpans {
  const response = new ResponseSpans(scan.isObject, macros)
  scan.object(responseKeys, response)
  return response
}
