/**
 * One exposure as bytes, from which any node can train its win. It takes 51 bytes, so that it fits into a context beside the
 * longest names.
 *
 *   version, flags, arm  ticket  time  supplier publisher placement country device size dsp deal domain  floor
 *   1                    4       6     3 each                                                            1
 *   in  sent  W(in), W(out), weight
 *   4   4     12, 12, 8 bits
 */

import type { BidFacts, Decision } from '../learner-types.ts'
import type { Guard } from '../shared/arms.ts'
import { keyAt } from './curve/priors.ts'
import { featureBytes, hashAt, moneyAt, supplierKey } from './features.ts'

const version = 3
/** `held`: treated, at its own price by chance although a lower one was best. */
const arms = ['holdout', 'explored', 'treated', 'held'] as const
const secondFlag = 0x08
const marginFlag = 0x04

/**
 * Whether the model can be trained with a price.
 *
 * @param price CPM, base currency
 */
export const isPrice = (price: number) => price >= 1e-9 && price < 1e9

/** A decision, initially the bid's own price, with what `expose` needs when the price has been sent. */
export class OwnDecision implements Decision {
  outBa: number
  factor = 1
  arm: Decision['arm'] = 'treated'
  propensity = 1
  winIn = 0
  winOut = 0
  theta?: number
  lambda?: number
  guard?: Guard
  density?: number
  /** The bid keeps its own price by chance, although a lower one was best. */
  held = false
  /** Share of its wins that the best price is expected to lose: its weight in the measurement of that loss. */
  weight = 0
  readonly inBa: number
  readonly second: boolean
  readonly mode: BidFacts['mode']
  /** The exposure's bytes, which `expose` completes. */
  bytes: Uint8Array
  /** `expose` was called. */
  exposed = false

  constructor({ inBa, auction, mode }: BidFacts, bytes: Uint8Array) {
    this.inBa = inBa
    this.outBa = inBa
    this.second = auction === 2
    this.mode = mode
    this.bytes = bytes
  }
}

/** A bid that was sent at a price. Prices are CPM. */
export class Exposure {
  /** Finds the exposure while it is pending. */
  ticket = 0
  /** `supplierKey` */
  supplier = 0
  arm: Decision['arm'] = 'treated'
  /** It kept its own price by chance, although a lower one was best. */
  held = false
  /** `BidRequest.at` was 2. */
  second = false
  inBa = 0
  sent = 0
  lnIn = 0
  /** ln (sent / in). */
  lnF = 0
  winIn = 0
  winOut = 0
  /** Its weight in the measurement of what lower prices lose: the expected loss at the best price. */
  weight = 0
  /** Milliseconds since the epoch. */
  sentAt = 0
}

// Without a DataView, because one for each bid would take as long as all the rest.
const float = new Float32Array(1)
const word = new Uint32Array(float.buffer)

/**
 * Writes 32 bits, big-endian.
 *
 * @param offset where the four bytes begin
 * @param value an integer; its lowest 32 bits are written
 */
export function writeWord(bytes: Uint8Array, offset: number, value: number): void {
  bytes[offset] = value >>> 24
  bytes[offset + 1] = value >>> 16
  bytes[offset + 2] = value >>> 8
  bytes[offset + 3] = value
}
/**
 * Reads 32 bits, big-endian, without a sign.
 *
 * @param offset where the four bytes begin
 */
export const wordAt = (bytes: Uint8Array, offset: number): number =>
  ((bytes[offset]! << 24) |
    (bytes[offset + 1]! << 16) |
    (bytes[offset + 2]! << 8) |
    bytes[offset + 3]!) >>>
  0

function writeFloat(bytes: Uint8Array, offset: number, value: number): void {
  float[0] = value
  writeWord(bytes, offset, word[0]!)
}
function floatAt(bytes: Uint8Array, offset: number): number {
  word[0] = wordAt(bytes, offset)
  return float[0]!
}

/** Probabilities are stored in steps of this. */
export const shareStep = 1 / 0xfff
const shareOf = (value: number) => Math.round((value > 0 ? (value < 1 ? value : 1) : 0) * 0xfff)

/**
 * Completes the bytes of a decision that was sent.
 *
 * @param sent the price sent, CPM
 * @param now milliseconds since the epoch
 */
export function writeExposure(decision: OwnDecision, sent: number, now: number): void {
  const { bytes, arm, held, second, mode } = decision
  bytes[0] =
    (version << 4) |
    (second ? secondFlag : 0) |
    (mode === 'margin' ? marginFlag : 0) |
    arms.indexOf(arm === 'treated' && held && sent >= decision.inBa ? 'held' : arm)
  writeTicket(bytes, 0)
  const time = Math.floor(now)
  const high = Math.floor(time / 2 ** 32)
  bytes[5] = high >>> 8
  bytes[6] = high
  writeWord(bytes, 7, time)
  writeFloat(bytes, moneyAt, decision.inBa)
  writeFloat(bytes, moneyAt + 4, sent)
  const [winIn, winOut] = [shareOf(decision.winIn), shareOf(decision.winOut)]
  bytes[moneyAt + 8] = winIn >>> 4
  bytes[moneyAt + 9] = (winIn << 4) | (winOut >>> 8)
  bytes[moneyAt + 10] = winOut
  bytes[moneyAt + 11] = Math.round(0xff * decision.weight)
}

/**
 * The features of the same bid, as if it had been sent at its own price.
 *
 * @param features a whole exposure; it stays as it is
 */
export function atOwnPrice(features: Uint8Array): Uint8Array {
  const bytes = features.slice()
  bytes.copyWithin(moneyAt + 4, moneyAt, moneyAt + 4)
  return bytes
}

/**
 * Writes the number of a pending exposure.
 *
 * @param bytes an exposure
 * @param ticket 32 bits; 0: none
 */
export const writeTicket = (bytes: Uint8Array, ticket: number): void => writeWord(bytes, 1, ticket)

/**
 * When the bid was sent, milliseconds since the epoch.
 *
 * @param from where its features begin
 */
export const timeIn = (bytes: Uint8Array, from = 0): number =>
  ((bytes[from + 5]! << 8) | bytes[from + 6]!) * 2 ** 32 + wordAt(bytes, from + 7)

/**
 * Reads bytes. False: another version wrote them, so nothing is trained with them.
 *
 * @param into gets what was read; untouched where the result is false
 */
export function readExposure(bytes: Uint8Array, into: Exposure): boolean {
  if (bytes.length !== featureBytes || bytes[0]! >>> 4 !== version) return false
  const arm = arms[bytes[0]! & 0x03]!
  const inBa = floatAt(bytes, moneyAt)
  const sent = floatAt(bytes, moneyAt + 4)
  if (!isPrice(inBa) || !isPrice(sent)) return false
  into.ticket = wordAt(bytes, 1)
  into.supplier = supplierKey(hashAt(bytes, keyAt.supplier), (bytes[0]! & marginFlag) !== 0)
  into.held = arm === 'held'
  into.arm = arm === 'held' ? 'treated' : arm
  into.second = (bytes[0]! & secondFlag) !== 0
  into.inBa = inBa
  into.sent = sent
  into.lnIn = Math.log(inBa)
  into.lnF = Math.min(0, Math.log(sent / inBa))
  const middle = bytes[moneyAt + 9]!
  into.winIn = ((bytes[moneyAt + 8]! << 4) | (middle >>> 4)) * shareStep
  into.winOut = (((middle & 0x0f) << 8) | bytes[moneyAt + 10]!) * shareStep
  into.weight = bytes[moneyAt + 11]! / 0xff
  into.sentAt = timeIn(bytes)
  return true
}
