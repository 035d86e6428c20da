/** What of a bid the curve knows, as hashes; and the bytes by which any node can teach its win. */
import type { BidFacts, Decision } from '../learner.ts'
import { hashCount } from './curve.ts'

const version = 1
/** version, flags, node, sequence, supplier hash, ln f, ln in, sent, W(in), W(out), time, hashes. */
const headBytes = 1 + 1 + 4 + 4 + 4 + 4 * 5 + 6
export const featureBytes = headBytes + 4 * hashCount

export const arms = ['holdout', 'explored', 'treated'] as const

/** One exposure: a bid left at a price. Prices are CPM. */
export interface Exposure {
  node: number
  sequence: number
  supplier: number
  arm: (typeof arms)[number]
  lnF: number
  lnIn: number
  sent: number
  winIn: number
  winOut: number
  /** Milliseconds since the epoch. */
  at: number
  hashes: Uint32Array
}

export function hashText(text: string, seed = 0x811c9dc5): number {
  let value = seed
  for (let at = 0; at < text.length; at++)
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  value ^= value >>> 15
  value = Math.imul(value, 0x2c1b3c6d)
  return (value ^ (value >>> 12)) >>> 0
}

/**
 * The hashes, in the order that the parameters take them: what is first takes part in every parameter.
 * Written into `into`, so that a decision allocates none.
 */
export function hashFacts(facts: BidFacts, into: Uint32Array): void {
  const supplier = hashText(facts.supplier, 0x1000193)
  const with_ = (name: number, value: string | undefined, seed = supplier) =>
    value === undefined ? (seed ^ name) >>> 0 : hashText(value, seed + name)
  const publisher = with_(1, facts.publisher)
  const country = with_(2, facts.country)
  const seat = facts.dsp ?? facts.seat
  into[0] = 0x5bd1e995
  into[1] = supplier
  into[2] = publisher
  into[3] = with_(3, facts.placement, publisher)
  into[4] = country
  into[5] = with_(4, facts.device)
  into[6] = hashText(`${facts.format ?? ''}${facts.size ?? ''}`, supplier + 5)
  into[7] = with_(6, seat)
  into[8] = with_(7, facts.country, publisher)
  into[9] = with_(8, seat, publisher)
  into[10] = with_(9, facts.deal)
  into[11] = with_(10, facts.domain)
}

const micro = (value: number) => Math.fround(Number.isFinite(value) ? value : 0)

export function writeExposure(exposure: Exposure): Uint8Array {
  const bytes = new Uint8Array(featureBytes)
  const view = new DataView(bytes.buffer)
  bytes[0] = version
  bytes[1] = arms.indexOf(exposure.arm)
  view.setUint32(2, exposure.node)
  view.setUint32(6, exposure.sequence)
  view.setUint32(10, exposure.supplier)
  view.setFloat32(14, micro(exposure.lnF))
  view.setFloat32(18, micro(exposure.lnIn))
  view.setFloat32(22, micro(exposure.sent))
  view.setFloat32(26, micro(exposure.winIn))
  view.setFloat32(30, micro(exposure.winOut))
  const at = Math.max(0, Math.min(2 ** 48 - 1, Math.floor(exposure.at) || 0))
  view.setUint16(34, Math.floor(at / 2 ** 32))
  view.setUint32(36, at % 2 ** 32)
  for (let n = 0; n < hashCount; n++) view.setUint32(headBytes + 4 * n, exposure.hashes[n]!)
  return bytes
}

/** null: not bytes of ours, or of another version; nothing is taught then. */
export function readExposure(bytes: Uint8Array): Exposure | null {
  if (bytes.length !== featureBytes || bytes[0] !== version) return null
  const arm = arms[bytes[1]!]
  if (arm === undefined) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const numbers = [14, 18, 22, 26, 30].map((at) => view.getFloat32(at))
  if (!numbers.every(Number.isFinite)) return null
  const hashes = new Uint32Array(hashCount)
  for (let n = 0; n < hashCount; n++) hashes[n] = view.getUint32(headBytes + 4 * n)
  const [lnF, lnIn, sent, winIn, winOut] = numbers as [number, number, number, number, number]
  return {
    node: view.getUint32(2),
    sequence: view.getUint32(6),
    supplier: view.getUint32(10),
    arm,
    lnF: Math.max(-3, Math.min(0, lnF)),
    lnIn: Math.max(-14, Math.min(14, lnIn)),
    sent,
    winIn,
    winOut,
    at: view.getUint16(34) * 2 ** 32 + view.getUint32(36),
    hashes,
  }
}

/** What the caller's decision and price make an exposure of. */
export function exposureOf(
  decision: Decision,
  loaded: { hashes: Uint32Array; supplier: number; inBa: number },
  sent: number,
  now: number,
): Omit<Exposure, 'node' | 'sequence'> {
  const f = sent > 0 && loaded.inBa > 0 ? Math.min(1, sent / loaded.inBa) : 1
  return {
    supplier: loaded.supplier,
    arm: decision.arm,
    lnF: Math.max(-3, Math.log(f)),
    lnIn: Math.max(-14, Math.min(14, Math.log(loaded.inBa))),
    sent,
    winIn: decision.winIn,
    winOut: decision.winOut,
    at: now,
    hashes: loaded.hashes,
  }
}
