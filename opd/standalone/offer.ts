/** The bids of a standalone call, with what is needed to say what is wrong with each of them. */
import { objectOf, type Read, type Scanner, Shape } from '../json/scanner.ts'
import { BRACE, BRACKET, MINUS, malformed, NINE, ZERO } from '../json/syntax.ts'
import { isNull, leaf } from '../openrtb/readers.ts'

type Leaf = Scanner['value']

/** `undefined` is absent, `null` is null, anything of a wrong type is `wrong`. */
const wrong = Symbol('wrong type')
type Sent = Leaf | typeof wrong
export const isWrong = (value: unknown): value is typeof wrong => value === wrong

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

class SentSeat {
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

/** Members of a BidRequest, in the body or in its `bidrequest`. */
class RequestPart {
  /** Those that are there and not null, `cur` only as a list: as a text it is the BidResponse's. */
  members: string[] = []
  /** BidRequest.id, or in the body BidResponse.id, which is the same. */
  id: Leaf = undefined
  /** A text, or the only or first one of a list; null: of a wrong type; undefined: absent. */
  cur: string | null | undefined = undefined
  /** Keys that decide something and stand twice. */
  repeated: string[] = []
}

export class Offer extends RequestPart {
  seats: SentSeat[] = []
  bids: SentBid[] = []
  /** Pointers of elements of `bid` that are no objects. */
  noBids: string[] = []
  listed = false
  /** `bidrequest`; null: absent, `wrong`: no object. */
  inner: RequestPart | typeof wrong | null = null

  get bidrequest(): RequestPart | null {
    return this.inner === null || this.inner === wrong ? null : this.inner
  }

  /** null: of a wrong type. */
  get currency(): string | null {
    const { cur = this.bidrequest?.cur } = this
    return cur === undefined ? 'USD' : cur
  }
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

const present =
  (key: string): Read<RequestPart> =>
  (scan, at, part) => {
    if (!isNull(scan, at)) part.members.push(key)
    return scan.skip(at)
  }

const readCurrency: Read<RequestPart> = (scan, at, part) => {
  if (scan.text.charCodeAt(at) === BRACKET) {
    part.members.push('cur')
    const names: string[] = []
    const end = scan.array(at, currencyIn, names)
    part.cur = names.includes('USD') ? 'USD' : (names[0] ?? 'USD')
    return end
  }
  const end = scan.read(at)
  const { value } = scan
  if (value === null || value === '') part.cur = undefined
  else part.cur = typeof value === 'string' ? value.toUpperCase() : null
  return end
}

const requestKeys = ['imp', 'site', 'app', 'dooh', 'device', 'test', 'at'] as const
const requestMembers: Record<string, Read<RequestPart>> = {
  ...Object.fromEntries(requestKeys.map((key) => [key, present(key)])),
  id: leaf((part, value) => {
    part.id = value
  }),
  cur: readCurrency,
}

/** What decides something in the request itself makes its bids ambiguous, as it does inline. */
const repeatedPart = (part: RequestPart, key: string) => {
  if (key === 'seatbid' || key === 'bidrequest' || key === 'cur') part.repeated.push(key)
}

const innerShape = new Shape<RequestPart>(requestMembers, repeatedPart)

const offerShape = new Shape<Offer>(
  {
    ...requestMembers,
    seatbid: (scan, at, offer) => {
      offer.listed = scan.text.charCodeAt(at) === BRACKET
      return offer.listed ? scan.array(at, readSeat, offer) : scan.skip(at)
    },
    bidrequest: (scan, at, offer) => {
      if (scan.text.charCodeAt(at) === BRACE) {
        const part = new RequestPart()
        offer.inner = part
        return scan.object(at, innerShape, part)
      }
      offer.inner = isNull(scan, at) ? null : wrong
      return scan.skip(at)
    },
  },
  repeatedPart,
)

const readRoot: Read<Offer> = (scan, at, offer) =>
  scan.text.charCodeAt(at) === BRACE ? scan.object(at, offerShape, offer) : malformed

/** null: no JSON, or no object. */
export function readOffer(scan: Scanner): Offer | null {
  const offer = new Offer()
  return scan.document(readRoot, offer) ? offer : null
}
