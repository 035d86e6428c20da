/** The bids of a standalone call, with what is needed to say what is wrong with each of them. */
import { objectOf, type Scanner } from '../json/scan.ts'
import { type Read, Shape } from '../json/shape.ts'
import { BRACE, BRACKET, MINUS, malformed, NINE, ZERO } from '../json/text.ts'

type Leaf = Scanner['value']

/** `undefined` is absent, `null` is null, anything of a wrong type is `wrong`. */
const wrong = Symbol('wrong type')
export type Sent = Leaf | typeof wrong
export const isWrong = (value: Sent) => value === wrong

const bidKeys = ['id', 'impid', 'dealid', 'mtype', 'dur', 'w', 'h', 'dsp_id'] as const
const moneyKeys = ['price', 'price_dsp'] as const

/** A price as the wire spells it; null: absent or null; `wrong`: no number. */
export type SentPrice = string | null | typeof wrong

export class SentBid {
  id: Sent = undefined
  impid: Sent = undefined
  dealid: Sent = undefined
  mtype: Sent = undefined
  dur: Sent = undefined
  w: Sent = undefined
  h: Sent = undefined
  dsp_id: Sent = undefined
  dsp: string | undefined = undefined
  price: SentPrice = null
  price_dsp: SentPrice = null
  adomain: string[] | null = null
  /** Deciding keys that stand twice. */
  repeated: string[] = []
  readonly seat: SentSeat
  /** JSON pointer into the body. */
  readonly pointer: string

  constructor(seat: SentSeat, pointer: string) {
    this.seat = seat
    this.pointer = pointer
  }

  /** `price`, or where it is absent `price_dsp`. */
  get inbound(): string | null {
    const text = this.price ?? this.price_dsp
    return typeof text === 'string' ? text : null
  }

  get priceDsp(): string | null {
    return typeof this.price_dsp === 'string' ? this.price_dsp : null
  }
}

export class SentSeat {
  name: Leaf = undefined
  /** Whether `bid` is a list. */
  listed = false
  isObject = true
  /** Elements of `bid`, bids or not. */
  elements = 0
  repeated: string[] = []
  readonly offer: Offer
  readonly pointer: string

  constructor(offer: Offer, pointer: string) {
    this.offer = offer
    this.pointer = pointer
  }
}

export class Offer {
  seats: SentSeat[] = []
  bids: SentBid[] = []
  /** Pointers of elements of `bid` that are no objects. */
  noBids: string[] = []
  listed = false
  /** A BidResponse's text, or the only or first one of a BidRequest's list; null: of a wrong type. */
  currency: string | null = 'USD'
  repeated: string[] = []
}

const repeats = (into: { repeated: string[] }, key: string) => {
  into.repeated.push(key)
}

const sent =
  (key: (typeof bidKeys)[number]): Read<SentBid> =>
  (scan, at, bid) => {
    const end = scan.read(at)
    if (end === malformed) return end
    bid[key] = scan.value === undefined ? wrong : scan.value
    if (key === 'dsp_id' && typeof scan.value === 'string') bid.dsp = scan.value
    if (key === 'dsp_id' && typeof scan.value === 'number') bid.dsp = scan.text.slice(at, end)
    return end
  }

const money =
  (key: (typeof moneyKeys)[number]): Read<SentBid> =>
  (scan, at, bid) => {
    const end = scan.read(at)
    if (end === malformed) return end
    const code = scan.text.charCodeAt(at)
    const isNumber = code === MINUS || (code >= ZERO && code <= NINE)
    bid[key] = isNumber ? scan.text.slice(at, end) : scan.value === null ? null : wrong
    return end
  }

const domain: Read<SentBid> = (scan, at, bid) => {
  const end = scan.read(at)
  if (end !== malformed && typeof scan.value === 'string') {
    if (bid.adomain === null) bid.adomain = []
    bid.adomain.push(scan.value)
  }
  return end
}

const bidShape = new Shape<SentBid>(
  {
    ...Object.fromEntries(bidKeys.map((key) => [key, sent(key)])),
    ...Object.fromEntries(moneyKeys.map((key) => [key, money(key)])),
    adomain: (scan, at, bid) =>
      scan.text.charCodeAt(at) === BRACKET ? scan.array(at, domain, bid) : domain(scan, at, bid),
  },
  (bid, key) => {
    if (key !== 'w' && key !== 'h') repeats(bid, key)
  },
)

const readBid: Read<SentSeat> = (scan, at, seat) => {
  const pointer = `${seat.pointer}/bid/${seat.elements++}`
  if (scan.text.charCodeAt(at) !== BRACE) {
    seat.offer.noBids.push(pointer)
    return scan.skip(at)
  }
  const bid = new SentBid(seat, pointer)
  seat.offer.bids.push(bid)
  return scan.object(at, bidShape, bid)
}

const seatShape = new Shape<SentSeat>(
  {
    seat: (scan, at, seat) => {
      const end = scan.read(at)
      if (end !== malformed) seat.name = scan.value
      return end
    },
    bid: (scan, at, seat) => {
      seat.listed = scan.text.charCodeAt(at) === BRACKET
      return seat.listed ? scan.array(at, readBid, seat) : scan.skip(at)
    },
  },
  repeats,
)

const readSeat: Read<Offer> = (scan, at, offer) => {
  const seat = new SentSeat(offer, `/seatbid/${offer.seats.length}`)
  seat.isObject = scan.text.charCodeAt(at) === BRACE
  offer.seats.push(seat)
  return objectOf(scan, at, seatShape, seat)
}

const currencyIn: Read<string[]> = (scan, at, names) => {
  const end = scan.read(at)
  if (end !== malformed && typeof scan.value === 'string') names.push(scan.value.toUpperCase())
  return end
}

const offerShape = new Shape<Offer>(
  {
    seatbid: (scan, at, offer) => {
      offer.listed = scan.text.charCodeAt(at) === BRACKET
      return offer.listed ? scan.array(at, readSeat, offer) : scan.skip(at)
    },
    cur: (scan, at, offer) => {
      if (scan.text.charCodeAt(at) === BRACKET) {
        const names: string[] = []
        const end = scan.array(at, currencyIn, names)
        offer.currency = names.includes('USD') ? 'USD' : (names[0] ?? 'USD')
        return end
      }
      const end = scan.read(at)
      const { value } = scan
      if (value === null || value === '') offer.currency = 'USD'
      else offer.currency = typeof value === 'string' ? value.toUpperCase() : null
      return end
    },
  },
  repeats,
)

const readRoot: Read<Offer> = (scan, at, offer) =>
  scan.text.charCodeAt(at) === BRACE ? scan.object(at, offerShape, offer) : malformed

/** null: no JSON, or no object. */
export function readOffer(scan: Scanner): Offer | null {
  const offer = new Offer()
  return scan.document(readRoot, offer) ? offer : null
}
