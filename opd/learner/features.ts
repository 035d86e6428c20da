/** The features of a bid as hashes of 24 bits, and the keys made of them. exposure.ts shows the layout of the bytes. */

import { hashText, mix } from '../base/hash.ts'
import type { BidFacts } from '../learner-types.ts'
import { keyAt } from './curve/priors.ts'

const hashesAt = 11
/** The number of hashes: of the keys from `supplier` to `domain`, in the order of `keyNames`. */
const hashed = keyAt.domain
const floorAt = hashesAt + 3 * hashed
export const moneyAt = floorAt + 1
export const featureBytes = moneyAt + 12

const placeOf = (key: number) => hashesAt + 3 * (key - keyAt.supplier)

function put(bytes: Uint8Array, key: number, hash: number): void {
  const offset = placeOf(key)
  bytes[offset] = hash >>> 16
  bytes[offset + 1] = hash >>> 8
  bytes[offset + 2] = hash
}

/**
 * The hash of a key, 24 bits; 0: the bid has no such key.
 *
 * @param key one of `keyAt`, from `supplier` on
 * @param from where the features begin
 */
export function hashAt(bytes: Uint8Array, key: number, from = 0): number {
  const offset = from + placeOf(key)
  return (bytes[offset]! << 16) | (bytes[offset + 1]! << 8) | bytes[offset + 2]!
}

const text = (value: string | undefined, seed: number) =>
  value === undefined ? 0 : hashText(value, seed) & 0xffffff || 1

const supplierHash = (name: string) => text(name, 0x1000193)
/**
 * The key of a supplier's state of one mode.
 *
 * @param hash of the supplier's id, 24 bits
 * @param isMargin whether it is the state of mode `margin`
 */
export const supplierKey = (hash: number, isMargin: boolean) => (isMargin ? hash + 2 ** 24 : hash)

/**
 * Writes the hashes of a bid; `writeExposure` completes the bytes. The supplier is part of every other hash.
 *
 * @param bytes `featureBytes` of them
 */
export function writeFeatures(facts: BidFacts, bytes: Uint8Array): void {
  const { format, size } = facts
  const supplier = supplierHash(facts.supplier)
  const publisher = text(facts.publisher, supplier + 1)
  put(bytes, keyAt.supplier, supplier)
  put(bytes, keyAt.publisher, publisher)
  put(bytes, keyAt.placement, text(facts.placement, mix(supplier, publisher)))
  put(bytes, keyAt.country, text(facts.country, supplier + 2))
  put(bytes, keyAt.device, text(facts.device, supplier + 3))
  const formatHash = format === undefined ? supplier + 4 : hashText(format, supplier + 4)
  put(bytes, keyAt.size, text(format === undefined ? size : (size ?? ''), formatHash))
  put(bytes, keyAt.dsp, text(facts.dsp ?? facts.seat, supplier + 5))
  put(bytes, keyAt.deal, text(facts.deal, supplier + 6))
  put(bytes, keyAt.domain, text(facts.domain, supplier + 7))
  setFloor(bytes, facts)
}

/**
 * Writes the floor in steps of 13 %; 0: no floor.
 *
 * @param bytes features
 * @param facts the floor in CPM, base currency; 0: none
 */
export function setFloor(bytes: Uint8Array, { floor }: BidFacts): void {
  const step = floor > 0 ? Math.round(Math.log(floor) * 8) + 128 : 0
  bytes[floorAt] = floor > 0 && step < 1 ? 1 : step > 255 ? 255 : step
}
/** The floor that was written, within 7 %. */
export const floorOf = (bytes: Uint8Array): number =>
  bytes[floorAt] === 0 ? 0 : Math.exp((bytes[floorAt]! - 128) / 8)
/**
 * Whether the bid has a floor.
 *
 * @param bytes features
 */
export const hasFloor = (bytes: Uint8Array): boolean => bytes[floorAt] !== 0

const quarter = 4 * 3_600_000
/**
 * Which of the six periods of four hours of a day a time is in.
 *
 * @param time milliseconds since the epoch, UTC
 */
export const quarterOf = (time: number): number => Math.floor(time / quarter) % 6

/**
 * The keys of a bid, in the order of `keyNames`; 0: it has none.
 *
 * @param bytes features
 * @param time when the bid is sent, milliseconds since the epoch
 * @param keys gets them; as long as `keyNames`
 */
export function keysOf(bytes: Uint8Array, time: number, keys: Uint32Array): void {
  keys[keyAt.all] = 0x5bd1e995
  for (let key = keyAt.supplier; key <= hashed; key++) {
    const hash = hashAt(bytes, key)
    keys[key] = hash === 0 ? 0 : mix(hash, key) || 1
  }
  keys[keyAt.hour] = mix(mix(hashAt(bytes, keyAt.supplier), 12), quarterOf(time) + 1)
}

/**
 * FNV-1a of features.
 *
 * @param from where the features begin
 * @param seed 32 bits
 */
export function featureHash(bytes: Uint8Array, from = 0, seed = 0x811c9dc5): number {
  let hash = seed
  for (let index = from; index < from + featureBytes; index++)
    hash = Math.imul(hash ^ bytes[index]!, 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}

/**
 * Whether the features that begin at `from` are these.
 *
 * @param features `featureBytes` bytes
 */
export function hasFeatures(bytes: Uint8Array, from: number, features: Uint8Array): boolean {
  for (let n = 0; n < featureBytes; n++) if (bytes[from + n] !== features[n]) return false
  return true
}
