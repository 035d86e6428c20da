/** Reads an OpenRTB BidResponse in Protocol Buffers: places of its bids, and the values that eligibility and features depend on. */
import { type Bid, BidTerms } from '../openrtb/bid.ts'
import { FieldTable, field, type MessagePlace, MessageReader, objectSteps } from './wire.ts'

/** SERVICE 4.8 rule 1: a bid with it is priced where its macros are expanded. */
const marker = Buffer.from('svc_opd=${SVC_OPD_CONTEXT}')

/** Where a text or a message is: its length, from `lengthStart` to `start`, and its bytes, up to `end`. */
export interface LengthPlace {
  readonly lengthStart: number
  readonly start: number
  readonly end: number
}

/** Of a field that is sent twice, the last value counts, as in Google's runtimes: no bid is ambiguous. */
export class ProtobufBid extends BidTerms implements Bid, LengthPlace {
  bidId = ''
  price: number | null = null
  /** Of the eight bytes of the price; -1: there is none. */
  pricePosition = -1
  adm: LengthPlace | null = null
  nurl: LengthPlace | null = null
  burl: LengthPlace | null = null
  lurl: LengthPlace | null = null
  readonly ambiguous = false
  readonly seat: ProtobufSeat
  readonly lengthStart: number
  readonly start: number
  readonly end: number

  constructor(seat: ProtobufSeat, { lengthStart, position, end }: MessagePlace) {
    super()
    this.seat = seat
    this.lengthStart = lengthStart
    this.start = position
    this.end = end
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

  /**
   * Whether adm, nurl or burl contains `svc_opd=${SVC_OPD_CONTEXT}`.
   *
   * @param bytes the response that the bid was read from
   */
  hasMacro(bytes: Buffer): boolean {
    const { adm, nurl, burl } = this
    return hasMarker(bytes, adm) || hasMarker(bytes, nurl) || hasMarker(bytes, burl)
  }
}

const hasMarker = (bytes: Buffer, text: LengthPlace | null) =>
  text !== null && bytes.subarray(text.start, text.end).includes(marker)

export class ProtobufSeat implements LengthPlace {
  /** null: the response names none. */
  name: string | null = null
  readonly bids: ProtobufBid[] = []
  readonly index: number
  readonly response: ProtobufResponse
  readonly tagStart: number
  readonly lengthStart: number
  readonly start: number
  readonly end: number

  constructor(response: ProtobufResponse, place: MessagePlace) {
    this.response = response
    this.index = response.seats.length
    this.tagStart = place.tagStart
    this.lengthStart = place.lengthStart
    this.start = place.position
    this.end = place.end
  }
}

export class ProtobufResponse {
  currency = 'USD'
  readonly seats: ProtobufSeat[] = []
  /** Of all seats. */
  readonly bids: ProtobufBid[] = []
}

type UrlField = 'adm' | 'nurl' | 'burl' | 'lurl'

const url = (name: UrlField) =>
  field.span((bid: ProtobufBid, start, end, lengthStart) => {
    bid[name] = { lengthStart, start, end }
  })

const bidFields = new FieldTable<ProtobufBid>({
  1: field.text((bid, value) => {
    bid.bidId = value
  }),
  2: field.text((bid, value) => {
    bid.impid = value
  }),
  3: field.double((bid, value, position) => {
    bid.price = value
    bid.pricePosition = position
  }),
  5: url('nurl'),
  6: url('adm'),
  7: field.text((bid, value) => bid.addDomain(value)),
  13: field.text((bid, value) => {
    bid.dealid = value
  }),
  16: field.int32((bid, value) => {
    bid.width = value
  }),
  17: field.int32((bid, value) => {
    bid.height = value
  }),
  22: url('burl'),
  23: url('lurl'),
  32: field.int32((bid, value) => {
    bid.dur = value
  }),
  33: field.int32((bid, value) => {
    bid.mtype = value
  }),
})

const seatFields = new FieldTable<ProtobufSeat>({
  1: field.message(bidFields, (seat, place) => {
    const bid = new ProtobufBid(seat, place)
    place.steps += objectSteps
    seat.bids.push(bid)
    seat.response.bids.push(bid)
    return bid
  }),
  2: field.text((seat, value) => {
    seat.name = value
  }),
})

export const responseFields = new FieldTable<ProtobufResponse>({
  2: field.message(seatFields, (response, place) => {
    const seat = new ProtobufSeat(response, place)
    place.steps += objectSteps
    response.seats.push(seat)
    return seat
  }),
  4: field.text((response, value) => {
    response.currency = value === '' ? 'USD' : value.toUpperCase()
  }),
})

const seatField = new FieldTable<{ found: boolean }>({
  2: field.span((response) => {
    response.found = true
  }),
})

/**
 * Whether a response has a seat near its beginning.
 *
 * @param body a BidResponse in Protocol Buffers, of which ten fields are read
 */
export function hasSeat(body: Buffer): boolean {
  const response = { found: false }
  MessageReader.readerOf(body, seatField, response).read(10)
  return response.found
}
