/**
 * One exposure as bytes, by which any node can teach its win: 51 of them, so that a context holds them beside the longest
 * names.
 *
 *   version, arm, flags  ticket  time  supplier publisher placement country device size dsp deal domain  floor
 *   1                    4       6     3 each                                                            1
 *   in  sent  W(in), W(out), weight
 *   4   4     12, 12, 8 bits
 */
import { featureBytes, hashAt, keyed, type Mode, moneyAt, publisherIn, seatIn } from './features.ts'
import type { Decision } from './types.ts'

const version = 3
/** The last: treated, with theta raised. */
const arms = ['holdout', 'explored', 'treated', 'raised'] as const
const secondFlag = 0x08
const marginFlag = 0x04

/** One exposure: a bid left at a price. Prices are CPM. */
export interface Exposure {
  ticket: number
  /** As `supplierKey` makes it. */
  supplier: number
  publisher: number
  seat: number
  arm: Decision['arm']
  /** Theta was raised for it. */
  raised: boolean
  /** `BidRequest.at` was 2. */
  second: boolean
  inBa: number
  sent: number
  lnIn: number
  /** ln sent / in. */
  lnF: number
  winIn: number
  winOut: number
  /** How much it says of what lower prices lose; whether theta was raised does not change it. */
  weight: number
  /** Milliseconds since the epoch. */
  at: number
}

/** To be read into. */
export const noExposure = (): Exposure => ({
  ticket: 0,
  supplier: 0,
  publisher: 0,
  seat: 0,
  arm: 'treated',
  raised: false,
  second: false,
  inBa: 0,
  sent: 0,
  lnIn: 0,
  lnF: 0,
  winIn: 0,
  winOut: 0,
  weight: 0,
  at: 0,
})

// A DataView a bid would cost as much as the rest.
const float = new Float32Array(1)
const word = new Uint32Array(float.buffer)
function writeFloat(bytes: Uint8Array, at: number, value: number): void {
  float[0] = value
  const bits = word[0]!
  bytes[at] = bits >>> 24
  bytes[at + 1] = bits >>> 16
  bytes[at + 2] = bits >>> 8
  bytes[at + 3] = bits
}
const wordAt = (bytes: Uint8Array, at: number): number =>
  ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0
function floatAt(bytes: Uint8Array, at: number): number {
  word[0] = wordAt(bytes, at)
  return float[0]!
}
/** Chances are kept in steps of this. */
export const shareStep = 1 / 0xfff
const shareOf = (value: number) => Math.round((value > 0 ? (value < 1 ? value : 1) : 0) * 0xfff)
/** Weights in 255 steps of 3 %, from 1 / 500 to 4. */
const weightStep = 33
const weightOf = (code: number) => 4 * Math.exp((code - 255) / weightStep)
const weights = Float64Array.from({ length: 256 }, (_each, code) => weightOf(code))
const codeOf = (weight: number) => Math.round(255 + weightStep * Math.log(weight / 4))

/** Completes the bytes of a decision that left at `sent`. */
export function seal(
  bytes: Uint8Array,
  decision: Decision,
  bid: {
    inBa: number
    second: boolean
    mode: Mode
    raised: boolean
    weight: number
  },
  sent: number,
  now: number,
): void {
  bytes[0] =
    (version << 4) |
    (bid.second ? secondFlag : 0) |
    (bid.mode === 'margin' ? marginFlag : 0) |
    arms.indexOf(decision.arm === 'treated' && bid.raised ? 'raised' : decision.arm)
  writeTicket(bytes, 0)
  writeTime(bytes, now)
  writeFloat(bytes, moneyAt, bid.inBa)
  writeFloat(bytes, moneyAt + 4, sent)
  const [winIn, winOut] = [shareOf(decision.winIn), shareOf(decision.winOut)]
  bytes[moneyAt + 8] = winIn >>> 4
  bytes[moneyAt + 9] = (winIn << 4) | (winOut >>> 8)
  bytes[moneyAt + 10] = winOut
  const code = bid.weight > 0 ? codeOf(bid.weight) : 0
  bytes[moneyAt + 11] = code < 0 ? 0 : code > 255 ? 255 : code
}

export function writeTicket(bytes: Uint8Array, ticket: number): void {
  bytes[1] = ticket >>> 24
  bytes[2] = ticket >>> 16
  bytes[3] = ticket >>> 8
  bytes[4] = ticket
}

function writeTime(bytes: Uint8Array, now: number): void {
  const at = now > 0 ? (now < 2 ** 48 ? Math.floor(now) : 2 ** 48 - 1) : 0
  const high = Math.floor(at / 2 ** 32)
  const low = at - high * 2 ** 32
  bytes[5] = high >>> 8
  bytes[6] = high
  bytes[7] = low >>> 24
  bytes[8] = low >>> 16
  bytes[9] = low >>> 8
  bytes[10] = low
}

/** When a bid was sent, by its features, which begin at `from`. */
export const timeIn = (bytes: Uint8Array, from = 0): number =>
  ((bytes[from + 5]! << 8) | bytes[from + 6]!) * 2 ** 32 + wordAt(bytes, from + 7)

/** Reads into `into`; false: not bytes of ours, or of another version, and nothing is to be taught. */
export function readExposure(bytes: Uint8Array, into: Exposure): boolean {
  if (bytes.length !== featureBytes || bytes[0]! >>> 4 !== version) return false
  const arm = arms[bytes[0]! & 0x03]!
  const inBa = floatAt(bytes, moneyAt)
  const sent = floatAt(bytes, moneyAt + 4)
  if (!(inBa >= 1e-9 && inBa < 1e9 && sent >= 1e-9 && sent < 1e9)) return false
  into.ticket = wordAt(bytes, 1)
  into.supplier = keyed(hashAt(bytes, 0), (bytes[0]! & marginFlag) !== 0)
  into.publisher = publisherIn(bytes)
  into.seat = seatIn(bytes)
  into.raised = arm === 'raised'
  into.arm = arm === 'raised' ? 'treated' : arm
  into.second = (bytes[0]! & secondFlag) !== 0
  into.inBa = inBa
  into.sent = sent
  into.lnIn = Math.log(inBa)
  into.lnF = Math.min(0, Math.log(sent / inBa))
  const middle = bytes[moneyAt + 9]!
  into.winIn = ((bytes[moneyAt + 8]! << 4) | (middle >>> 4)) * shareStep
  into.winOut = (((middle & 0x0f) << 8) | bytes[moneyAt + 10]!) * shareStep
  into.weight = weights[bytes[moneyAt + 11]!]!
  into.at = timeIn(bytes)
  return true
}
