/** Validates a standalone call: every fault with its JSON pointer (RFC 6901). */
import type { OpdConfig } from '../config.ts'
import type { Fault } from '../engine/types.ts'
import type { RequestFacts } from '../openrtb/facts.ts'
import { isWrong, type PriceField, type StandaloneBid, type StandaloneCall } from './offer.ts'

/** A search that avoids parsing: most calls without `imp` have neither key. */
const mayHoldFloors = (text: string) => text.includes('"imp"') || text.includes('"bidfloor"')

const isFloor = (key: string, value: unknown) =>
  (key === 'imp' && Array.isArray(value) && value.length > 0) ||
  (key === 'bidfloor' && Number(value) > 0)

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * Floors that are not read and would silently count as 0: JSON pointers (RFC 6901), at most `most`, of `imp` and `bidfloor` in a body without an `imp` in its place. Members of
 * `ext` are extensions, not floors. `text` is the JSON as latin1.
 */
function misplacedFloors(text: string, most: number): string[] {
  const found: string[] = []
  if (!mayHoldFloors(text)) return found
  const open: [pointer: string, value: object][] = [
    ['', JSON.parse(Buffer.from(text, 'latin1').toString())],
  ]
  for (let each = open.pop(); each !== undefined && found.length < most; each = open.pop())
    for (const [key, value] of Object.entries(each[1])) {
      const pointer = `${each[0]}/${escaped(key)}`
      if (isFloor(key, value)) found.push(pointer)
      else if (key !== 'ext' && typeof value === 'object' && value !== null)
        open.push([pointer, value])
    }
  return found
}

const fault = (pointer: string, detail: string): Fault => ({ pointer, detail })

const repeatedKeys = (pointer: string, keys: readonly string[]) =>
  [...new Set(keys)].map((key) => fault(`${pointer}/${key}`, 'The key is repeated.'))

/** A price must be a finite number and not negative. 0 is allowed. */
function priceFault(pointer: string, text: PriceField): Fault[] {
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

function dspFault(pointer: string, bid: StandaloneBid): Fault[] {
  const { dsp_id: value } = bid
  return typeof value === 'boolean' || isWrong(value) ? [fault(pointer, 'Must be a string.')] : []
}

function bidFaults(bid: StandaloneBid, internalIds: boolean): Fault[] {
  const { pointer } = bid
  const prices = [
    ...priceFault(`${pointer}/price`, bid.price),
    ...priceFault(`${pointer}/price_dsp`, bid.price_dsp),
  ]
  if (bid.price === null && bid.price_dsp === null)
    prices.push(fault(`${pointer}/price`, 'Is required without price_dsp.'))
  return [
    ...repeatedKeys(pointer, bid.repeated),
    ...textFault(`${pointer}/id`, bid.id, true),
    ...textFault(`${pointer}/impid`, bid.impid, internalIds),
    ...prices,
    ...dspFault(`${pointer}/dsp_id`, bid),
  ]
}

/** A member of the BidRequest may be in the body or in `bidrequest`, not in both. */
function placeFaults({ members, inner, bidrequest }: StandaloneCall): Fault[] {
  if (isWrong(inner)) return [fault('/bidrequest', 'Must be an object.')]
  if (bidrequest === null) return []
  return [
    ...repeatedKeys('/bidrequest', bidrequest.repeated),
    ...[...new Set(bidrequest.members)]
      .filter((key) => members.includes(key))
      .map((key) => fault(`/bidrequest/${key}`, `Is in the body too, as /${key}.`)),
  ]
}

const misplaced = 'A floor is read only from imp, in the body or in bidrequest.'

/** Bounds the length of the response. */
const maxFaults = 100

/** The first hundred faults: of the document, then its seats, then its bids. `text` is the body as latin1. */
export function faultsOf(
  text: string,
  call: StandaloneCall,
  request: RequestFacts,
  { internalIds }: OpdConfig,
): Fault[] {
  const faults = [...repeatedKeys('', call.repeated), ...placeFaults(call)]
  if (!call.hasSeatbid) faults.push(fault('/seatbid', 'Must be an array of seats.'))
  const impAt = call.bidrequest?.members.includes('imp') ? '/bidrequest/imp' : '/imp'
  if (request.impSent && !request.impList) faults.push(fault(impAt, 'Must be an array.'))
  if (!request.impSent)
    for (const pointer of misplacedFloors(text, maxFaults)) faults.push(fault(pointer, misplaced))
  for (const seat of call.seats) {
    if (!seat.isObject) faults.push(fault(seat.pointer, 'Must be an object.'))
    else if (!seat.hasBids) faults.push(fault(`${seat.pointer}/bid`, 'Must be an array of bids.'))
    faults.push(...repeatedKeys(seat.pointer, seat.repeated))
  }
  for (const pointer of call.notObjects) faults.push(fault(pointer, 'Must be an object.'))
  for (const bid of call.bids) faults.push(...bidFaults(bid, internalIds))
  return faults.slice(0, maxFaults)
}
