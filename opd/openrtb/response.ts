/** Reads a BidResponse: byte ranges of its bids, and the values that eligibility depends on. Nothing else is copied. */
import { KeyTable, type Read, readArray, readObject, type Scanner } from '../json/scanner.ts'
import { detach } from '../json/strings.ts'
import { BRACE, BRACKET, MINUS, malformed, NINE, QUOTE, ZERO } from '../json/syntax.ts'
import type { MacroSpan, Macros } from '../rewrite/macros.ts'

/** A range of bytes; `end` is exclusive. */
interface Span {
  start: number
  end: number
}

type Leaf = Scanner['value']

/** One bid. A macro field is null unless it is a string, `adm` may be an object, and macros are looked for. */
export class BidSpans {
  adm: MacroSpan | null = null
  nurl: MacroSpan | null = null
  burl: MacroSpan | null = null
  lurl: MacroSpan | null = null
  price: Span | null = null
  id: Leaf = undefined
  /** Text of an id that is a number. */
  idText = ''
  impid: Leaf = undefined
  dealid: Leaf = undefined
  mtype: Leaf = undefined
  dur: Leaf = undefined
  width: Leaf = undefined
  height: Leaf = undefined
  adomain: string[] | null = null
  /** SERVICE 4.8 rule 1. */
  hasMacro = false
  /** A key that eligibility depends on is repeated. */
  ambiguous = false
  readonly seat: SeatSpans

  constructor(seat: SeatSpans) {
    this.seat = seat
  }
}

export class SeatSpans {
  start: number
  end = 0
  name: Leaf = undefined
  /** The key `seat` is repeated. */
  repeatedName = false
  /** The key `bid` is repeated. */
  repeatedBid = false
  bids: BidSpans[] = []
  /** Whether `bid` has any content, of any type. */
  hasBids = false
  readonly response: ResponseSpans

  constructor(response: ResponseSpans, start: number) {
    this.response = response
    this.start = start
  }
}

export class ResponseSpans {
  /** null: of a wrong type, so the currency is unknown. */
  currency: string | null = 'USD'
  seats: SeatSpans[] = []
  /** The document is an object, and its `seatbid` is an array, null or absent. */
  isWellFormed = false
  /** `seatbid` is an array. */
  hasSeatbid = false
  /** OpenRTB 3.0: the bids are in `openrtb.response`, which is not read. */
  isOpenRtb3 = false
  repeatedCur = false
  repeatedSeatbid = false
  /** Bids read so far; at `maxBids` reading stops. */
  bids = 0
  readonly macros: Macros | null

  /** Without `macros`, `hasMacro` of every bid is false. */
  constructor(macros: Macros | null) {
    this.macros = macros
  }
}

type MacroField = 'adm' | 'nurl' | 'burl' | 'lurl'

/** `decides`: a macro in this field makes the bid eligible. */
const macroField =
  (field: MacroField, decides: boolean): Read<BidSpans> =>
  (scan, at, bid) => {
    const end = scan.skip(at)
    if (end === malformed || scan.text.charCodeAt(at) !== QUOTE) return end
    const { macros } = bid.seat.response
    if (macros === null) return end
    const span = macros.span(at, end)
    bid[field] = span
    if (decides && !bid.hasMacro && macros.haveContext(span)) bid.hasMacro = true
    return end
  }

type LeafField = 'impid' | 'dealid' | 'mtype' | 'dur' | 'width' | 'height'

const leafField =
  (field: LeafField): Read<BidSpans> =>
  (scan, at, bid) => {
    const end = scan.read(at)
    if (end !== malformed) bid[field] = scan.value
    return end
  }

const isNumber = (code: number) => code === MINUS || (code >= ZERO && code <= NINE)

const domain: Read<BidSpans> = (scan, at, bid) => {
  const end = scan.read(at)
  if (end !== malformed && typeof scan.value === 'string') {
    if (bid.adomain === null) bid.adomain = [scan.value]
    else bid.adomain.push(scan.value)
  }
  return end
}

const bidKeyTable = new KeyTable<BidSpans>(
  {
    id: (scan, at, bid) => {
      const end = scan.read(at)
      if (end === malformed) return end
      bid.id = scan.value
      if (typeof scan.value === 'number') bid.idText = detach(scan.text.slice(at, end))
      return end
    },
    price: (scan, at, bid) => {
      const end = scan.skip(at)
      if (end !== malformed && isNumber(scan.text.charCodeAt(at))) bid.price = { start: at, end }
      return end
    },
    adm: macroField('adm', true),
    nurl: macroField('nurl', true),
    burl: macroField('burl', true),
    lurl: macroField('lurl', false),
    impid: leafField('impid'),
    dealid: leafField('dealid'),
    mtype: leafField('mtype'),
    dur: leafField('dur'),
    w: leafField('width'),
    h: leafField('height'),
    adomain: (scan, at, bid) =>
      scan.text.charCodeAt(at) === BRACKET ? scan.array(at, domain, bid) : domain(scan, at, bid),
  },
  (bid, key) => {
    // A size is a feature of the model. Eligibility does not depend on it.
    if (key !== 'w' && key !== 'h') bid.ambiguous = true
  },
)

/** A bid takes 250 bytes of memory here, and 1.4 million bids fit into a response of 4 MiB. Real responses have at most 200. */
const maxBids = 50_000

const readBid: Read<SeatSpans> = (scan, at, seat) => {
  seat.hasBids = true
  if (++seat.response.bids > maxBids) return malformed
  if (scan.text.charCodeAt(at) !== BRACE) return scan.skip(at)
  const bid = new BidSpans(seat)
  seat.bids.push(bid)
  return scan.object(at, bidKeyTable, bid)
}

const seatKeys = new KeyTable<SeatSpans>(
  {
    seat: (scan, at, seat) => {
      const end = scan.read(at)
      if (end === malformed) return end
      seat.name = typeof scan.value === 'number' ? scan.text.slice(at, end) : scan.value
      return end
    },
    bid: (scan, at, seat) => {
      if (scan.text.charCodeAt(at) === BRACKET) return scan.array(at, readBid, seat)
      const end = scan.read(at)
      if (end !== malformed && scan.value !== null) seat.hasBids = true
      return end
    },
  },
  (seat, key) => {
    if (key === 'seat') seat.repeatedName = true
    else seat.repeatedBid = true
  },
)

const readSeat: Read<ResponseSpans> = (scan, at, response) => {
  const seat = new SeatSpans(response, at)
  response.seats.push(seat)
  seat.end = readObject(scan, at, seatKeys, seat)
  return seat.end
}

const responseKeys = new KeyTable<ResponseSpans>(
  {
    cur: (scan, at, response) => {
      const end = scan.read(at)
      const { value } = scan
      if (value === null || value === '') response.currency = 'USD'
      else response.currency = typeof value === 'string' ? value.toUpperCase() : null
      return end
    },
    seatbid: (scan, at, response) => {
      const code = scan.text.charCodeAt(at)
      response.isWellFormed = code === BRACKET || code === 110
      if (code === BRACKET) response.hasSeatbid = true
      return readArray(scan, at, readSeat, response)
    },
    openrtb: (scan, at, response) => {
      response.isOpenRtb3 = scan.text.charCodeAt(at) === BRACE
      return scan.skip(at)
    },
  },
  (response, key) => {
    if (key === 'cur') response.repeatedCur = true
    else response.repeatedSeatbid = true
  },
)

const readRoot: Read<ResponseSpans> = (scan, at, response) => {
  response.isWellFormed = scan.text.charCodeAt(at) === BRACE
  return readObject(scan, at, responseKeys, response)
}

/** A response that is not an object has no bids. */
export function readBidResponse(
  scan: Scanner,
  macros: Macros | null,
): ResponseSpans | 'malformed' | 'too_large' {
  const response = new ResponseSpans(macros)
  if (scan.document(readRoot, response)) return response
  return response.bids > maxBids ? 'too_large' : 'malformed'
}
