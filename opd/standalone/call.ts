/** Reads a standalone call: its bids, the facts of its request, and what its validation needs. */
import { KeyTable, type Leaf, type Read, type Scanner } from '../json/scanner.ts'
import { type Bid, BidTerms, bidMembers } from '../openrtb/bid.ts'
import { currencyOf, RequestFacts } from '../openrtb/facts.ts'
import { repeatedMember, requestMembers } from '../openrtb/request.ts'

/** A value of a type that is not allowed. */
export const wrong = Symbol('wrong type')

/** A price as it was sent; null: absent or null; `wrong`: not a number. */
export type PriceField = string | null | typeof wrong

export class StandaloneBid extends BidTerms implements Bid {
  /** `undefined`: absent. `wrong`: an object or an array. */
  id: Leaf | typeof wrong = undefined
  dsp_id: Leaf | typeof wrong = undefined
  dsp: string | undefined = undefined
  price: PriceField = null
  price_dsp: PriceField = null
  /** Repeated keys that eligibility depends on. They are faults. */
  repeated: string[] = []
  readonly ambiguous = false
  readonly seat: Seat
  /** JSON pointer into the body. */
  readonly pointer: string

  constructor(seat: Seat, pointer: string) {
    super()
    this.seat = seat
    this.pointer = pointer
  }

  get bidId(): string {
    return this.id as string
  }

  get seatName(): string | null {
    return this.seat.name
  }

  get currency(): string | null {
    return this.seat.call.currency
  }

  /** `price`, or `price_dsp` if `price` is absent. */
  get priceText(): string | null {
    const text = this.price ?? this.price_dsp
    return typeof text === 'string' ? text : null
  }
}

class Seat {
  name: string | null = null
  /** Whether `bid` is an array. */
  hasBids = false
  /** Number of elements of `bid`, of any type. */
  elements = 0
  repeated: string[] = []
  readonly isObject: boolean
  readonly call: StandaloneCall
  readonly pointer: string

  constructor(call: StandaloneCall, isObject: boolean) {
    this.call = call
    this.isObject = isObject
    this.pointer = `/seatbid/${call.seats.length}`
  }
}

/** The members of the BidRequest that are in the body, or in its `bidrequest`. */
class Place {
  /** Names of members that are present and not null. `cur` counts if it is an array; a string is BidResponse.cur. */
  members: string[] = []
  /** The currency: a string, or USD or the first string of an array; null: of a wrong type; undefined: absent. */
  cur: string | null | undefined = undefined
  /** Repeated keys that prices depend on. Other repeated keys make the bids ambiguous, as in a bid response. */
  repeated: string[] = []
}

/** The members of the BidRequest are in the body, or in `bidrequest`. */
export class StandaloneCall extends RequestFacts {
  readonly body = new Place()
  /** `bidrequest`; null: absent, `wrong`: not an object. */
  bidrequest: Place | typeof wrong | null = null
  seats: Seat[] = []
  bids: StandaloneBid[] = []
  /** Pointers of elements of `bid` that are not objects. */
  notObjects: string[] = []
  hasSeatbid = false
  /** The id in `bidrequest`, which takes precedence. */
  requestId = ''
  /** The place of the member that is read at present. */
  place = this.body

  /** null: of a wrong type. */
  get currency(): string | null {
    const inner = this.bidrequest === wrong ? undefined : this.bidrequest?.cur
    const { cur = inner } = this.body
    return cur === undefined ? 'USD' : cur
  }
}

const sent =
  (key: 'id' | 'impid' | 'dealid'): Read<StandaloneBid> =>
  (scan, bid) => {
    const value = scan.leaf()
    bid[key] = value === undefined ? wrong : value
  }

const money =
  (key: 'price' | 'price_dsp'): Read<StandaloneBid> =>
  (scan, bid) => {
    if (scan.isNumber) bid[key] = scan.source
    else bid[key] = scan.isNull ? null : wrong
  }

const bidKeys = new KeyTable<StandaloneBid>(
  {
    ...bidMembers,
    id: sent('id'),
    impid: sent('impid'),
    dealid: sent('dealid'),
    price: money('price'),
    price_dsp: money('price_dsp'),
    dsp_id: (scan, bid) => {
      const value = scan.leaf()
      bid.dsp_id = value === undefined ? wrong : value
      if (typeof value === 'string') bid.dsp = value
      if (typeof value === 'number') bid.dsp = scan.source
    },
  },
  (bid, key) => {
    if (key !== 'w' && key !== 'h') bid.repeated.push(key)
  },
)

const readBid: Read<Seat> = (scan, seat) => {
  const { call } = seat
  const pointer = `${seat.pointer}/bid/${seat.elements++}`
  if (!scan.isObject) return void call.notObjects.push(pointer)
  const bid = new StandaloneBid(seat, pointer)
  call.bids.push(bid)
  scan.object(bidKeys, bid)
}

const seatKeys = new KeyTable<Seat>(
  {
    seat: (scan, seat) => {
      const value = scan.leaf()
      seat.name = typeof value === 'string' ? value : null
    },
    bid: (scan, seat) => {
      seat.hasBids = scan.isArray
      scan.array(readBid, seat)
    },
  },
  (seat, key) => seat.repeated.push(key),
)

const readSeat: Read<StandaloneCall> = (scan, call) => {
  const seat = new Seat(call, scan.isObject)
  call.seats.push(seat)
  scan.object(seatKeys, seat)
}

const readCurrencyName: Read<string[]> = (scan, names) => {
  const value = scan.leaf()
  if (typeof value === 'string') names.push(value.toUpperCase())
}

const readCurrency: Read<StandaloneCall> = (scan, { place }) => {
  if (scan.isArray) {
    const names: string[] = []
    scan.array(readCurrencyName, names)
    place.members.push('cur')
    place.cur = names.includes('USD') ? 'USD' : (names[0] ?? 'USD')
    return
  }
  const value = scan.leaf()
  place.cur = value === null || value === '' ? undefined : currencyOf(value)
}

/** Reads a member and records its presence. */
const recorded =
  (key: string, read: Read<StandaloneCall>): Read<StandaloneCall> =>
  (scan, call) => {
    if (!scan.isNull) call.place.members.push(key)
    read(scan, call)
  }

/** `id` may be in both places: in the body it is BidResponse.id, which equals BidRequest.id. */
const { id, ...others } = requestMembers
const members: Record<string, Read<StandaloneCall>> = { cur: readCurrency }
for (const [key, read] of Object.entries(others)) members[key] = recorded(key, read)

const noteRepeated = (call: StandaloneCall, key: string) => {
  if (key === 'seatbid' || key === 'bidrequest' || key === 'cur') call.place.repeated.push(key)
  else repeatedMember(call, key)
}

const innerKeys = new KeyTable<StandaloneCall>(
  {
    ...members,
    id: (scan, call) => {
      id!(scan, call)
      call.requestId = call.id
    },
  },
  noteRepeated,
)

const callKeys = new KeyTable<StandaloneCall>(
  {
    ...members,
    id: id!,
    seatbid: (scan, call) => {
      call.hasSeatbid = scan.isArray
      scan.array(readSeat, call)
    },
    bidrequest: (scan, call) => {
      if (!scan.isObject) {
        call.bidrequest = scan.isNull ? null : wrong
        return
      }
      call.bidrequest = new Place()
      call.place = call.bidrequest
      scan.object(innerKeys, call)
      call.place = call.body
    },
  },
  noteRepeated,
)

/** null: not an object. */
export function readCall(scan: Scanner): StandaloneCall | null {
  if (!scan.isObject) return null
  const call = new StandaloneCall()
  scan.object(callKeys, call)
  if (call.requestId !== '') call.id = call.requestId
  return call
}
