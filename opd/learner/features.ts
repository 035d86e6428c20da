/** What of a bid the model knows, as hashes of 24 bits, and the keys made of them. Where they lie: exposure.ts. */

import { hashText, mix } from '../shared/hash.ts'
import type { BidFacts } from './types.ts'

const hashesAt = 11
const hashed = 9
const floorAt = hashesAt + 3 * hashed
export const moneyAt = floorAt + 1
export const featureBytes = moneyAt + 12

/** 0 stands for absent. */
function put(bytes: Uint8Array, which: number, hash: number): void {
  const at = hashesAt + 3 * which
  bytes[at] = hash >>> 16
  bytes[at + 1] = hash >>> 8
  bytes[at + 2] = hash
}

const text = (value: string | undefined, seed: number) =>
  value === undefined ? 0 : hashText(value, seed) & 0xffffff || 1

export type Mode = BidFacts['mode']
const supplierHash = (name: string) => text(name, 0x1000193)

/** What a supplier's state of one mode is kept under. */
export const supplierKey = (name: string, mode: Mode): number =>
  keyed(supplierHash(name), mode === 'margin')
export const keyed = (hash: number, margin: boolean) => (margin ? hash + 2 ** 24 : hash)

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
export const hashAt = (bytes: Uint8Array, which: number): number => {
  const at = hashesAt + 3 * which
  return (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
}

/** The keys of a bid, in the order of `keyNames`; 0: it has none. */
export function keysOf(bytes: Uint8Array, at: number, keys: Uint32Array): void {
  keys[0] = 0x5bd1e995
  for (let which = 0; which < hashed; which++) {
    const hash = hashAt(bytes, which)
    keys[which + 1] = hash === 0 ? 0 : mix(hash, which + 1) || 1
  }
  keys[hashed + 1] = mix(mix(hashAt(bytes, 0), 12), quarterOf(at) + 1)
}
export const hasFloor = (bytes: Uint8Array): boolean => bytes[floorAt] !== 0
