/** Reads an OpenRTB BidResponse in Protocol Buffers: its bids, with what eligibility and features depend on. */
import { type Bid, BidTerms } from '../openrtb/bid.ts'
import { FieldTable, field } from './wire.ts'

/** SERVICE 4.8 rule 1: a bid with it is priced where its macros are expanded. */
const marker = Buffer.from('svc_opd=${SVC_OPD_CONTEXT}')

export class ProtobufBid extends BidTerms implements Bid {
  bidId = ''
  price: number | null = null
  /** Places of adm, nurl and burl: start and end of each. */
  readonly urls: number[] = []
  /** A message has no repeated keys: the last value counts. */
  readonly ambiguous = false
  readonly seat: ProtobufSeat

  constructor(seat: ProtobufSeat) {
    super()
    this.seat = seat
  }

  get seatName(): string | null {
    return this.seat.name
  }

  get currency(): string {
    return this.seat.response.currency
  }

  /** The shortest text of the double. */
  get priceText(): string | null {
    const { price } = this
    return price !== null && Number.isFinite(price) ? String(price) : null
  }

  /** Whether adm, nurl or burl contains `svc_opd=${SVC_OPD_CONTEXT}`. */
  hasMacro(bytes: Buffer): boolean {
    const { urls } = this
    for (let n = 0; n < urls.length; n += 2)
      if (bytes.subarray(urls[n], urls[n + 1]).includes(marker)) return true
    return false
  }
}

class ProtobufSeat {
  /** null: the response names none. */
  name: string | null = null
  readonly index: number
  readonly response: ProtobufResponse

  constructor(response: ProtobufResponse) {
    this.response = response
    this.index = response.seats++
  }
}

export class ProtobufResponse {
  currency = 'USD'
  seats = 0
  readonly bids: ProtobufBid[] = []
}

const place = field.span((bid: ProtobufBid, start, end) => void bid.urls.push(start, end))

const bidFields = new FieldTable<ProtobufBid>({
  1: field.text((bid, value) => {
    bid.bidId = value
  }),
  2: field.text((bid, value) => {
    bid.impid = value
  }),
  3: field.double((bid, value) => {
    bid.price = value
  }),
  5: place,
  6: place,
  7: field.text((bid, value) => {
    if (bid.adomain === null) bid.adomain = [value]
    else bid.adomain.push(value)
  }),
  13: field.text((bid, value) => {
    bid.dealid = value
  }),
  16: field.int32((bid, value) => {
    bid.width = value
  }),
  17: field.int32((bid, value) => {
    bid.height = value
  }),
  22: place,
  32: field.int32((bid, value) => {
    bid.dur = value
  }),
  33: field.int32((bid, value) => {
    bid.mtype = value
  }),
})

const seatFields = new FieldTable<ProtobufSeat>({
  1: field.message(bidFields, (seat) => {
    const bid = new ProtobufBid(seat)
    seat.response.bids.push(bid)
    return bid
  }),
  2: field.text((seat, value) => {
    seat.name = value
  }),
})

export const responseFields = new FieldTable<ProtobufResponse>({
  2: field.message(seatFields, (response) => new ProtobufSeat(response)),
  4: field.text((response, value) => {
    response.currency = value === '' ? 'USD' : value.toUpperCase()
  }),
})
