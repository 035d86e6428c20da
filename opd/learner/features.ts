/**
 * What of a bid the model knows, as hashes of 24 bits, and the bytes by which any node can teach its win: 51 of them,
 * so that a context holds them beside the longest names.
 *
 *   version, arm, flags  ticket  time  supplier publisher placement country device size dsp deal domain  floor
 *   1                    4       6     3 each                                                            1
 *   in  sent  W(in)  W(out)
 *   4   4     2      2
 */

import { hashText, mix } from '../shared/hash.ts'
import type { BidFacts, Decision } from './types.ts'

const version = 2
const hashesAt = 11
const hashed = 9
const floorAt = hashesAt + 3 * hashed
const moneyAt = floorAt + 1
export const featureBytes = moneyAt + 12

/** The last: treated, with theta raised instead of lowered. */
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
  /** Theta was raised for it; where it was not, it was lowered. */
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
  at: 0,
})

/** 0 stands for absent. */
function put(bytes: Uint8Array, which: number, hash: number): void {
  const at = hashesAt + 3 * which
  bytes[at] = hash >>> 16
  bytes[at + 1] = hash >>> 8
  bytes[at + 2] = hash
}

const text = (value: string | undefined, seed: number) =>
  value === undefined ? 0 : hashText(value, seed) & 0xffffff || 1

type Mode = BidFacts['mode']
const supplierHash = (name: string) => text(name, 0x1000193)

/** What a supplier's state of one mode is kept under. */
export const supplierKey = (name: string, mode: Mode): number =>
  keyed(supplierHash(name), mode === 'margin')
const keyed = (hash: number, margin: boolean) => (margin ? hash + 2 ** 24 : hash)

/** The same from the bytes that `describe` wrote; and the publisher's and the seat's hash, 0 where there is none. */
export const supplierIn = (bytes: Uint8Array, mode: Mode): number =>
  keyed(hashAt(bytes, 0), mode === 'margin')
export const publisherIn = (bytes: Uint8Array): number => hashAt(bytes, 1)
export const seatIn = (bytes: Uint8Array): number => hashAt(bytes, 6)

/** The hashes of a bid, into fresh bytes that `seal` completes. The supplier is part of every other. */
export function describe(facts: BidFacts, bytes: Uint8Array): void {
  const supplier = supplierHash(facts.supplier)
  const publisher = text(facts.publisher, supplier + 1)
  put(bytes, 0, supplier)
  put(bytes, 1, publisher)
  put(bytes, 2, text(facts.placement, mix(supplier, publisher)))
  put(bytes, 3, text(facts.country, supplier + 2))
  put(bytes, 4, text(facts.device, supplier + 3))
  const format = facts.format === undefined ? supplier + 4 : hashText(facts.format, supplier + 4)
  put(
    bytes,
    5,
    facts.format === undefined && facts.size === undefined ? 0 : text(facts.size ?? '', format),
  )
  put(bytes, 6, text(facts.dsp ?? facts.seat, supplier + 5))
  put(bytes, 7, text(facts.deal, supplier + 6))
  put(bytes, 8, text(facts.domain, supplier + 7))
  setFloor(bytes, floorOf(facts))
}

/** Floors alike to 13 % are one; 0: none. */
export function floorOf({ floor }: BidFacts): number {
  if (!(floor > 0)) return 0
  const step = Math.round(Math.log(floor) * 8) + 128
  return step < 1 ? 1 : step > 255 ? 255 : step
}

export function setFloor(bytes: Uint8Array, floor: number): void {
  bytes[floorAt] = floor
}

const quarter = 4 * 3_600_000
/** The four hours of the day, of six, that a time is in. */
export const quarterOf = (at: number): number => Math.floor(at / quarter) % 6
const absent = (hash: number, made: number) => (hash === 0 ? 0 : made || 1)
const hashAt = (bytes: Uint8Array, which: number): number => {
  const at = hashesAt + 3 * which
  return (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
}

/** The keys of a bid, in the order of `keyNames`; 0: it has none. */
export function keysOf(bytes: Uint8Array, at: number, keys: Uint32Array): void {
  const supplier = hashAt(bytes, 0)
  const publisher = hashAt(bytes, 1)
  const placement = hashAt(bytes, 2)
  const country = hashAt(bytes, 3)
  const dsp = hashAt(bytes, 6)
  const floor = bytes[floorAt]!
  const hour = quarterOf(at)
  keys[0] = 0x5bd1e995
  keys[1] = mix(supplier, 1)
  keys[2] = absent(publisher, mix(publisher, 2))
  keys[3] = absent(placement, mix(placement, 3))
  keys[4] = absent(country, mix(country, 4))
  keys[5] = absent(hashAt(bytes, 4), mix(hashAt(bytes, 4), 5))
  keys[6] = absent(hashAt(bytes, 5), mix(hashAt(bytes, 5), 6))
  keys[7] = absent(dsp, mix(dsp, 7))
  keys[8] = absent(hashAt(bytes, 7), mix(hashAt(bytes, 7), 8))
  keys[9] = absent(hashAt(bytes, 8), mix(hashAt(bytes, 8), 9))
  keys[10] = publisher === 0 ? 0 : absent(country, mix(mix(publisher, 10), country))
  keys[11] = publisher === 0 ? 0 : absent(dsp, mix(mix(publisher, 11), dsp))
  keys[12] = mix(mix(supplier, 12), hour + 1)
  keys[13] = absent(publisher, mix(mix(publisher, 13), hour + 1))
  keys[14] = publisher === 0 ? 0 : mix(mix(publisher, 14), floor + 1)
  keys[15] = placement === 0 ? 0 : absent(floor, mix(mix(placement, 15), floor))
  keys[16] = absent(floor, mix(mix(supplier, 16), floor))
}
export const hasFloor = (bytes: Uint8Array): boolean => bytes[floorAt] !== 0

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
function writeShare(bytes: Uint8Array, at: number, value: number): void {
  const share = Math.round((value > 0 ? (value < 1 ? value : 1) : 0) * 0xffff)
  bytes[at] = share >>> 8
  bytes[at + 1] = share
}
const shareAt = (bytes: Uint8Array, at: number): number =>
  ((bytes[at]! << 8) | bytes[at + 1]!) / 0xffff

/** Completes the bytes of a decision that left at `sent`. */
export function seal(
  bytes: Uint8Array,
  decision: Decision,
  bid: { inBa: number; second: boolean; mode: Mode; would?: number; raised: boolean },
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
  writeShare(bytes, moneyAt + 8, decision.winIn)
  // of the holdout: at the price that it would have had
  writeShare(bytes, moneyAt + 10, bid.would ?? decision.winOut)
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
  into.winIn = shareAt(bytes, moneyAt + 8)
  into.winOut = shareAt(bytes, moneyAt + 10)
  into.at = timeIn(bytes)
  return true
}
