/** All that is wrong with a standalone call, each fault with its place (RFC 6901). */
import type { OpdConfig } from '../config.ts'
import type { Fault } from '../engine/types.ts'
import type { RequestFacts } from '../openrtb/request.ts'
import { misplacedFloors } from './misplaced.ts'
import { isWrong, type Offer, type SentBid, type SentPrice } from './offer.ts'

const fault = (pointer: string, detail: string): Fault => ({ pointer, detail })

const twice = (pointer: string, keys: readonly string[]) =>
  [...new Set(keys)].map((key) => fault(`${pointer}/${key}`, 'The key stands twice.'))

/** A price that is there must be a number that can be kept; 0 is kept as it is, below 0 is none. */
function priceFault(pointer: string, text: SentPrice): Fault[] {
  if (text === null) return []
  if (typeof text !== 'string') return [fault(pointer, 'Must be a number.')]
  if (!Number.isFinite(Number(text))) return [fault(pointer, 'Is too large a number.')]
  return text.startsWith('-') ? [fault(pointer, 'Must not be negative.')] : []
}

function textFault(pointer: string, value: unknown, required: boolean): Fault[] {
  if (value === undefined || value === null) return required ? [fault(pointer, 'Is required.')] : []
  if (typeof value !== 'string') return [fault(pointer, 'Must be a string.')]
  return required && value === '' ? [fault(pointer, 'Must not be empty.')] : []
}

function dspFault(pointer: string, bid: SentBid): Fault[] {
  const { dsp_id: value } = bid
  return typeof value === 'boolean' || isWrong(value) ? [fault(pointer, 'Must be a string.')] : []
}

function bidFaults(bid: SentBid, internalIds: boolean): Fault[] {
  const { pointer } = bid
  const prices = [
    ...priceFault(`${pointer}/price`, bid.price),
    ...priceFault(`${pointer}/price_dsp`, bid.price_dsp),
  ]
  if (bid.price === null && bid.price_dsp === null)
    prices.push(fault(`${pointer}/price`, 'Is required where there is no price_dsp.'))
  return [
    ...twice(pointer, bid.repeated),
    ...textFault(`${pointer}/id`, bid.id, true),
    ...textFault(`${pointer}/impid`, bid.impid, internalIds),
    ...prices,
    ...dspFault(`${pointer}/dsp_id`, bid),
  ]
}

/** A member of the BidRequest has one place: two might say two things. */
function placeFaults({ members, inner, bidrequest }: Offer): Fault[] {
  if (isWrong(inner)) return [fault('/bidrequest', 'Must be an object.')]
  if (bidrequest === null) return []
  return [
    ...twice('/bidrequest', bidrequest.repeated),
    ...[...new Set(bidrequest.members)]
      .filter((key) => members.includes(key))
      .map((key) => fault(`/bidrequest/${key}`, `Stands in the body too, as /${key}.`)),
  ]
}

const misplaced = 'A floor is read from imp, in the body or in bidrequest, and nowhere else.'

/** More faults than anyone reads would make a small call a large answer. */
const mostFaults = 100

/** Faults of the document, its seats, then its bids; the first hundred. `text`: the body's bytes as latin1. */
export function faultsOf(
  text: string,
  offer: Offer,
  request: RequestFacts,
  { internalIds }: OpdConfig,
): Fault[] {
  const faults = [...twice('', offer.repeated), ...placeFaults(offer)]
  if (!offer.listed) faults.push(fault('/seatbid', 'Must be an array of seats.'))
  const impAt = offer.bidrequest?.members.includes('imp') ? '/bidrequest/imp' : '/imp'
  if (request.impSent && !request.impList) faults.push(fault(impAt, 'Must be an array.'))
  if (!request.impSent)
    for (const pointer of misplacedFloors(text, mostFaults)) faults.push(fault(pointer, misplaced))
  for (const seat of offer.seats) {
    if (!seat.isObject) faults.push(fault(seat.pointer, 'Must be an object.'))
    else if (!seat.listed) faults.push(fault(`${seat.pointer}/bid`, 'Must be an array of bids.'))
    faults.push(...twice(seat.pointer, seat.repeated))
  }
  for (const pointer of offer.noBids) faults.push(fault(pointer, 'Must be an object.'))
  for (const bid of offer.bids) faults.push(...bidFaults(bid, internalIds))
  return faults.slice(0, mostFaults)
}
