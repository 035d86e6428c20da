/** Validates a standalone call: every fault with its JSON pointer (RFC 6901). */
import type { OpdConfig } from '../config.ts'
import type { Fault } from '../types.ts'
import { type PriceField, type StandaloneBid, type StandaloneCall, wrong } from './call.ts'

/** Bounds the length of the response. */
const maxFaults = 100

/** A search that avoids parsing: most calls without `imp` have neither key. */
const mayHoldFloors = (text: string) => text.includes('"imp"') || text.includes('"bidfloor"')

const isFloor = (key: string, value: unknown) =>
  (key === 'imp' && Array.isArray(value) && value.length > 0) ||
  (key === 'bidfloor' && Number(value) > 0)

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * Floors that are not read and would silently count as 0: JSON pointers (RFC 6901) of `imp` and `bidfloor` in a body without
 * an `imp` in its place. Members of `ext` are extensions, not floors. `text` is the JSON as latin1.
 */
function misplacedFloors(text: string): string[] {
  const found: string[] = []
  if (!mayHoldFloors(text)) return found
  const open: [pointer: string, value: object][] = [
    ['', JSON.parse(Buffer.from(text, 'latin1').toString())],
  ]
  for (let next = open.pop(); next !== undefined && found.length < maxFaults; next = open.pop())
    for (const [key, value] of Object.entries(next[1])) {
      const pointer = `${next[0]}/${escaped(key)}`
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

function bidFaults(bid: StandaloneBid, internalIds: boolean): Fault[] {
  const { pointer, id, impid, price, price_dsp, dsp_id } = bid
  const faults = [
    ...repeatedKeys(pointer, bid.repeated),
    ...textFault(`${pointer}/id`, id, true),
    ...textFault(`${pointer}/impid`, impid, internalIds),
    ...priceFault(`${pointer}/price`, price),
    ...priceFault(`${pointer}/price_dsp`, price_dsp),
  ]
  if (price === null && price_dsp === null)
    faults.push(fault(`${pointer}/price`, 'Is required without price_dsp.'))
  if (typeof dsp_id === 'boolean' || dsp_id === wrong)
    faults.push(fault(`${pointer}/dsp_id`, 'Must be a string.'))
  return faults
}

/** A member of the BidRequest may be in the body or in `bidrequest`, not in both. */
function placeFaults({ body, bidrequest }: StandaloneCall): Fault[] {
  if (bidrequest === wrong) return [fault('/bidrequest', 'Must be an object.')]
  if (bidrequest === null) return []
  return [
    ...repeatedKeys('/bidrequest', bidrequest.repeated),
    ...[...new Set(bidrequest.members)]
      .filter((key) => body.members.includes(key))
      .map((key) => fault(`/bidrequest/${key}`, `Is in the body too, as /${key}.`)),
  ]
}

const misplaced = 'A floor is read only from imp, in the body or in bidrequest.'

/** The first hundred faults: of the document, then its seats, then its bids. `text` is the body as latin1. */
export function faultsOf(text: string, call: StandaloneCall, { internalIds }: OpdConfig): Fault[] {
  const { body, bidrequest, seats, bids } = call
  const faults = [...repeatedKeys('', body.repeated), ...placeFaults(call)]
  if (!call.hasSeatbid) faults.push(fault('/seatbid', 'Must be an array of seats.'))
  const isInside = bidrequest !== wrong && bidrequest?.members.includes('imp')
  if (call.impSent && !call.impList)
    faults.push(fault(isInside ? '/bidrequest/imp' : '/imp', 'Must be an array.'))
  if (!call.impSent)
    for (const pointer of misplacedFloors(text)) faults.push(fault(pointer, misplaced))
  for (const { pointer, isObject, hasBids, repeated } of seats) {
    if (!isObject) faults.push(fault(pointer, 'Must be an object.'))
    else if (!hasBids) faults.push(fault(`${pointer}/bid`, 'Must be an array of bids.'))
    faults.push(...repeatedKeys(pointer, repeated))
  }
  for (const pointer of call.notObjects) faults.push(fault(pointer, 'Must be an object.'))
  for (const bid of bids) faults.push(...bidFaults(bid, internalIds))
  return faults.slice(0, maxFaults)
}
