/** Where the bids of a BidResponse stand in its bytes: spans and the few values that decide, no copies. */
import { listOf, objectOf, type Read, type Scanner, Shape } from '../json/scanner.ts'
import { own } from '../json/strings.ts'
import { BRACE, BRACKET, MINUS, malformed, NINE, QUOTE, ZERO } from '../json/syntax.ts'
import type { PatternFinder } from '../rewrite/macros.ts'

/** A value's bytes, from its first to behind its last. */
export interface Span {
  start: number
  end: number
}

type Leaf = Scanner['value']

/** One bid. Of the four macro fields only strings are here; an `adm` that is an object is not. */
export class BidSpans {
  adm: Span | null = null
  nurl: Span | null = null
  burl: Span | null = null
  lurl: Span | null = null
  price: Span | null = null
  id: Leaf = undefined
  /** The wire's text of an id that is a number. */
  idText = ''
  impid: Leaf = undefined
  dealid: Leaf = undefined
  mtype: Leaf = undefined
  dur: Leaf = undefined
  width: Leaf = undefined
  height: Leaf = undefined
  adomain: string[] | null = null
  /** SERVICE 4.8 rule 1. */
  pattern = false
  /** A key that decides something stands twice. */
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
  /** `seat` stands twice, or `bid` does. */
  twoNames = false
  twoLists = false
  bids: BidSpans[] = []
  /** Whether anything at all stands in `bid`, be it of the right type or not. */
  filled = false
  readonly answer: AnswerSpans

  constructor(answer: AnswerSpans, start: number) {
    this.answer = answer
    this.start = start
  }
}

export class AnswerSpans {
  /** null: of a wrong type, so no currency at all. */
  currency: string | null = 'USD'
  seats: SeatSpans[] = []
  /** The document is an object, and its `seatbid` an array, null or absent. */
  shaped = false
  /** It has a `seatbid` that is an array. */
  listed = false
  /** OpenRTB 3.0: the bids are in `openrtb.response`, which is not read. */
  enveloped = false
  twoCurrencies = false
  twoLists = false
  /** Bids so far; past `mostBids` nothing more is read. */
  bids = 0
  readonly finder: PatternFinder | null

  /** Without a finder nobody asks for the pattern. */
  constructor(finder: PatternFinder | null) {
    this.finder = finder
  }
}

type MacroField = 'adm' | 'nurl' | 'burl' | 'lurl'

/** `decides`: the field in which the pattern makes a bid one to process. */
const macroField =
  (field: MacroField, decides: boolean): Read<BidSpans> =>
  (scan, at, bid) => {
    const end = scan.skip(at)
    if (end === malformed || scan.text.charCodeAt(at) !== QUOTE) return end
    bid[field] = { start: at, end }
    const { finder } = bid.seat.answer
    if (decides && finder?.holds(at + 1, end - 1)) bid.pattern = true
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

const bidShape = new Shape<BidSpans>(
  {
    id: (scan, at, bid) => {
      const end = scan.read(at)
      if (end === malformed) return end
      bid.id = scan.value
      if (typeof scan.value === 'number') bid.idText = own(scan.text.slice(at, end))
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
    // A size is a feature of the model and decides nothing.
    if (key !== 'w' && key !== 'h') bid.ambiguous = true
  },
)

/** Bids of one answer: 200 are many, and each costs a quarter of a kilobyte here (1.4 million fit into 4 MiB). */
export const mostBids = 50_000

const readBid: Read<SeatSpans> = (scan, at, seat) => {
  seat.filled = true
  if (++seat.answer.bids > mostBids) return malformed
  if (scan.text.charCodeAt(at) !== BRACE) return scan.skip(at)
  const bid = new BidSpans(seat)
  seat.bids.push(bid)
  return scan.object(at, bidShape, bid)
}

const seatShape = new Shape<SeatSpans>(
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
      if (end !== malformed && scan.value !== null) seat.filled = true
      return end
    },
  },
  (seat, key) => {
    if (key === 'seat') seat.twoNames = true
    else seat.twoLists = true
  },
)

const readSeat: Read<AnswerSpans> = (scan, at, answer) => {
  const seat = new SeatSpans(answer, at)
  answer.seats.push(seat)
  seat.end = objectOf(scan, at, seatShape, seat)
  return seat.end
}

const answerShape = new Shape<AnswerSpans>(
  {
    cur: (scan, at, answer) => {
      const end = scan.read(at)
      const { value } = scan
      if (value === null || value === '') answer.currency = 'USD'
      else answer.currency = typeof value === 'string' ? value.toUpperCase() : null
      return end
    },
    seatbid: (scan, at, answer) => {
      const code = scan.text.charCodeAt(at)
      answer.shaped = code === BRACKET || code === 110
      if (code === BRACKET) answer.listed = true
      return listOf(scan, at, readSeat, answer)
    },
    openrtb: (scan, at, answer) => {
      answer.enveloped = scan.text.charCodeAt(at) === BRACE
      return scan.skip(at)
    },
  },
  (answer, key) => {
    if (key === 'cur') answer.twoCurrencies = true
    else answer.twoLists = true
  },
)

const readRoot: Read<AnswerSpans> = (scan, at, answer) => {
  answer.shaped = scan.text.charCodeAt(at) === BRACE
  return objectOf(scan, at, answerShape, answer)
}

/** An answer that is no object has no bids. */
export function readAnswer(
  scan: Scanner,
  finder: PatternFinder | null,
): AnswerSpans | 'malformed' | 'too_large' {
  const answer = new AnswerSpans(finder)
  if (scan.document(readRoot, answer)) return answer
  return answer.bids > mostBids ? 'too_large' : 'malformed'
}
