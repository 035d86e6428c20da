/** Reads a standalone call: its bids, and all that its validation needs. */
import { KeyTable, type Read, readObject, type Scanner } from '../json/scanner.ts'
import { BRACE, BRACKET, MINUS, malformed, NINE, ZERO } from '../json/syntax.ts'
import { isNull, leaf } from '../openrtb/readers.ts'

type Leaf = Scanner['value']

/** `undefined`: absent. `wrong`: an object or an array. */
const wrong = Symbol('wrong type')
type Field = Leaf | typeof wrong
export const isWrong = (value: unknown): value is typeof wrong => value === wrong

const bidKeys = ['id', 'impid', 'dealid', 'mtype', 'dur', 'w', 'h', 'dsp_id'] as const
const moneyKeys = ['price', 'price_dsp'] as const

/** A price as it was sent; null: absent or null; `wrong`: not a number. */
export type PriceField = string | null | typeof wrong

export class StandaloneBid {
  id: Field = undefined
  impid: Field = undefined
  dealid: Field = undefined
  mtype: Field = undefined
  dur: Field = undefined
  w: Field = undefined
  h: Field = undefined
  dsp_id: Field = undefined
  dsp: string | undefined = undefined
  price: PriceField = null
  price_dsp: PriceField = null
  adomain: string[] | null = null
  /** Repeated keys that eligibility depends on. */
  repeated: string[] = []
  readonly seat: StandaloneSeat
  /** JSON pointer into the body. */
  readonly pointer: string

  constructor(seat: StandaloneSeat, pointer: string) {
    this.seat = seat
    this.pointer = pointer
  }

  /** `price`, or `price_dsp` if `price` is absent. */
  get inbound(): string | null {
    const text = this.price ?? this.price_dsp
    return typeof text === 'string' ? text : null
  }

  get priceDsp(): string | null {
    return typeof this.price_dsp === 'string' ? this.price_dsp : null
  }
}

class StandaloneSeat {
  name: Leaf = undefined
  /** Whether `bid` is an array. */
  hasBids = false
  isObject = true
  /** Number of elements of `bid`, of any type. */
  elements = 0
  repeated: string[] = []
  readonly call: StandaloneCall
  readonly pointer: string

  constructor(call: StandaloneCall, pointer: string) {
    this.call = call
    this.pointer = pointer
  }
}

/** Members of a BidRequest, in the body or in its `bidrequest`. */
class RequestMembers {
  /** Names of members that are present and not null. `cur` counts if it is an array; a string is BidResponse.cur. */
  members: string[] = []
  /** BidRequest.id; in the body BidResponse.id, which is equal. */
  id: Leaf = undefined
  /** The currency: a string, or USD or the first string of an array; null: of a wrong type; undefined: absent. */
  cur: string | null | undefined = undefined
  /** Repeated keys that prices depend on. */
  repeated: string[] = []
}

export class StandaloneCall extends RequestMembers {
  seats: StandaloneSeat[] = []
  bids: StandaloneBid[] = []
  /** Pointers of elements of `bid` that are not objects. */
  notObjects: string[] = []
  hasSeatbid = false
  /** `bidrequest`; null: absent, `wrong`: not an object. */
  inner: RequestMembers | typeof wrong | null = null

  get bidrequest(): RequestMembers | null {
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
  (key: (typeof bidKeys)[number]): Read<StandaloneBid> =>
  (scan, at, bid) => {
    const end = scan.read(at)
    if (end === malformed) return end
    bid[key] = scan.value === undefined ? wrong : scan.value
    if (key === 'dsp_id' && typeof scan.value === 'string') bid.dsp = scan.value
    if (key === 'dsp_id' && typeof scan.value === 'number') bid.dsp = scan.text.slice(at, end)
    return end
  }

const money =
  (key: (typeof moneyKeys)[number]): Read<StandaloneBid> =>
  (scan, at, bid) => {
    const end = scan.read(at)
    if (end === malformed) return end
    const code = scan.text.charCodeAt(at)
    const isNumber = code === MINUS || (code >= ZERO && code <= NINE)
    bid[key] = isNumber ? scan.text.slice(at, end) : scan.value === null ? null : wrong
    return end
  }

const domain: Read<StandaloneBid> = leaf((bid, value) => {
  if (typeof value !== 'string') return
  bid.adomain ??= []
  bid.adomain.push(value)
})

const bidKeyTable = new KeyTable<StandaloneBid>(
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

const readBid: Read<StandaloneSeat> = (scan, at, seat) => {
  const pointer = `${seat.pointer}/bid/${seat.elements++}`
  if (scan.text.charCodeAt(at) !== BRACE) {
    seat.call.notObjects.push(pointer)
    return scan.skip(at)
  }
  const bid = new StandaloneBid(seat, pointer)
  seat.call.bids.push(bid)
  return scan.object(at, bidKeyTable, bid)
}

const seatKeys = new KeyTable<StandaloneSeat>(
  {
    seat: leaf((seat, value) => {
      seat.name = value
    }),
    bid: (scan, at, seat) => {
      seat.hasBids = scan.text.charCodeAt(at) === BRACKET
      return seat.hasBids ? scan.array(at, readBid, seat) : scan.skip(at)
    },
  },
  repeats,
)

const readSeat: Read<StandaloneCall> = (scan, at, call) => {
  const seat = new StandaloneSeat(call, `/seatbid/${call.seats.length}`)
  seat.isObject = scan.text.charCodeAt(at) === BRACE
  call.seats.push(seat)
  return readObject(scan, at, seatKeys, seat)
}

const currencyIn: Read<string[]> = leaf((names, value) => {
  if (typeof value === 'string') names.push(value.toUpperCase())
})

const present =
  (key: string): Read<RequestMembers> =>
  (scan, at, part) => {
    if (!isNull(scan, at)) part.members.push(key)
    return scan.skip(at)
  }

const readCurrency: Read<RequestMembers> = (scan, at, part) => {
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
const requestMembers: Record<string, Read<RequestMembers>> = {
  ...Object.fromEntries(requestKeys.map((key) => [key, present(key)])),
  id: leaf((part, value) => {
    part.id = value
  }),
  cur: readCurrency,
}

/** Other repeated keys of the request make its bids ambiguous, as in a bid response. */
const noteRepeated = (part: RequestMembers, key: string) => {
  if (key === 'seatbid' || key === 'bidrequest' || key === 'cur') part.repeated.push(key)
}

const innerKeys = new KeyTable<RequestMembers>(requestMembers, noteRepeated)

const offerKeys = new KeyTable<StandaloneCall>(
  {
    ...requestMembers,
    seatbid: (scan, at, call) => {
      call.hasSeatbid = scan.text.charCodeAt(at) === BRACKET
      return call.hasSeatbid ? scan.array(at, readSeat, call) : scan.skip(at)
    },
    bidrequest: (scan, at, call) => {
      if (scan.text.charCodeAt(at) === BRACE) {
        const part = new RequestMembers()
        call.inner = part
        return scan.object(at, innerKeys, part)
      }
      call.inner = isNull(scan, at) ? null : wrong
      return scan.skip(at)
    },
  },
  noteRepeated,
)

const readRoot: Read<StandaloneCall> = (scan, at, call) =>
  scan.text.charCodeAt(at) === BRACE ? scan.object(at, offerKeys, call) : malformed

/** null: not JSON, or not an object. */
export function readCall(scan: Scanner): StandaloneCall | null {
  const call = new StandaloneCall()
  return scan.document(readRoot, call) ? call : null
}
