/** Where the bids of a BidResponse stand in its bytes: spans, no values, no copies. */
import { malformed, type Scanner } from '../json/scan.ts'

/** A value's bytes, from its first to behind its last. */
export interface Span {
  start: number
  end: number
}

/** The four fields in which macros are expanded. */
export const macroFields = ['adm', 'nurl', 'burl', 'lurl'] as const
export type MacroField = (typeof macroFields)[number]

export interface BidSpans {
  span: Span
  /** Only the strings among the four; an `adm` that is an object is not here. */
  macros: Partial<Record<MacroField, Span>>
  price: Span | null
  id: unknown
  impid: unknown
  dealid: unknown
  mtype: unknown
  dur: unknown
  width: unknown
  height: unknown
  adomain: string[]
  /** A key that decides something stands twice. */
  ambiguous: boolean
}

export interface SeatSpans {
  span: Span
  seat: string | null
  bids: BidSpans[]
  ambiguous: boolean
}

export interface AnswerSpans {
  currency: string
  seats: SeatSpans[]
  /** Where the `seatbid` array stands; null where there is none. */
  seatbid: Span | null
  ambiguous: boolean
}

const bidKeys = new Set([
  ...macroFields,
  'price',
  'id',
  'impid',
  'dealid',
  'mtype',
  'dur',
  'w',
  'h',
  'adomain',
])

export class AnswerReader {
  private readonly scan: Scanner

  constructor(scan: Scanner) {
    this.scan = scan
  }

  /** null: malformed. An answer that is no object has no bids. */
  read(): AnswerSpans | null {
    const { scan } = this
    const answer: AnswerSpans = { currency: 'USD', seats: [], seatbid: null, ambiguous: false }
    const good = scan.document((at) =>
      scan.text.charCodeAt(at) === 123 ? this.root(at, answer) : scan.skip(at),
    )
    return good ? answer : null
  }

  private root(at: number, answer: AnswerSpans): number {
    const { scan } = this
    let currencies = 0
    let seatbids = 0
    return scan.object(at, (key, value) => {
      if (key === 'cur') {
        if (++currencies > 1) answer.ambiguous = true
        const end = scan.read(value)
        if (typeof scan.value === 'string' && scan.value !== '')
          answer.currency = scan.value.toUpperCase()
        return end
      }
      if (key !== 'seatbid') return scan.skip(value)
      if (++seatbids > 1) answer.ambiguous = true
      if (scan.text.charCodeAt(value) !== 91) return scan.skip(value)
      const end = scan.array(value, (element) => this.seat(element, answer))
      answer.seatbid = { start: value, end }
      return end
    })
  }

  private seat(at: number, answer: AnswerSpans): number {
    const { scan } = this
    const seat: SeatSpans = { span: { start: at, end: at }, seat: null, bids: [], ambiguous: false }
    answer.seats.push(seat)
    let names = 0
    let lists = 0
    const end =
      scan.text.charCodeAt(at) !== 123
        ? scan.skip(at)
        : scan.object(at, (key, value) => {
            if (key === 'seat') {
              if (++names > 1) seat.ambiguous = true
              const after = scan.read(value)
              seat.seat = typeof scan.value === 'string' ? scan.value : null
              return after
            }
            if (key !== 'bid') return scan.skip(value)
            if (++lists > 1) seat.ambiguous = true
            if (scan.text.charCodeAt(value) !== 91) return scan.skip(value)
            return scan.array(value, (element) =>
              scan.text.charCodeAt(element) === 123 ? this.bid(element, seat) : scan.skip(element),
            )
          })
    seat.span.end = end
    return end
  }

  private bid(at: number, seat: SeatSpans): number {
    const { scan } = this
    const bid: BidSpans = {
      span: { start: at, end: at },
      macros: {},
      price: null,
      id: undefined,
      impid: undefined,
      dealid: undefined,
      mtype: undefined,
      dur: undefined,
      width: undefined,
      height: undefined,
      adomain: [],
      ambiguous: false,
    }
    seat.bids.push(bid)
    const seen: string[] = []
    const end = scan.object(at, (key, value) => {
      if (!bidKeys.has(key)) return scan.skip(value)
      if (seen.includes(key)) bid.ambiguous = true
      seen.push(key)
      return this.member(bid, key, value)
    })
    bid.span.end = end
    return end
  }

  private member(bid: BidSpans, key: string, at: number): number {
    const { scan } = this
    switch (key) {
      case 'adm':
      case 'nurl':
      case 'burl':
      case 'lurl': {
        const end = scan.skip(at)
        if (scan.text.charCodeAt(at) === 34) bid.macros[key] = { start: at, end }
        return end
      }
      case 'price': {
        const end = scan.skip(at)
        const code = scan.text.charCodeAt(at)
        if (end !== malformed && (code === 45 || (code >= 48 && code <= 57)))
          bid.price = { start: at, end }
        return end
      }
      case 'adomain':
        if (scan.text.charCodeAt(at) !== 91) return scan.skip(at)
        return scan.array(at, (element) => {
          const end = scan.read(element)
          if (typeof scan.value === 'string') bid.adomain.push(scan.value)
          return end
        })
      default: {
        const end = scan.read(at)
        bid[places[key as keyof typeof places]] = scan.value
        return end
      }
    }
  }
}

const places = {
  id: 'id',
  impid: 'impid',
  dealid: 'dealid',
  mtype: 'mtype',
  dur: 'dur',
  w: 'width',
  h: 'height',
} as const
