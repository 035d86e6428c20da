/**
 * The OPD context: base64url of
 *
 *   version  key id  nonce          ciphertext of the record   tag
 *   1        1       8 + 4 counter  up to 354                  16
 *
 * Authenticated encryption (`seal.ts`); associated data: version, key id and bid id. The nonce is 64
 * random bits drawn by this process and a 32-bit counter; the random part is drawn again before the
 * counter wraps, so no two contexts share one, on any node, at any rate (10,000/s for ten years on a
 * thousand nodes draw under a million prefixes: a collision at 1 in 10^7). The nonce is the decision's
 * id as well.
 */
import { randomFillSync } from 'node:crypto'
import type { ContextKey } from '../config.ts'
import type { ContextState, DecisionRecord } from '../engine/types.ts'
import { readRecord, recordRoom, writeRecord } from './record.ts'
import { createSealer, nonceBytes, type Sealer, tagBytes } from './seal.ts'

const version = 1
const nonceAt = 2
const headBytes = nonceAt + nonceBytes
const longestContext = 512
const longestPlain = (longestContext / 4) * 3 - headBytes - tagBytes
/** A context may be this far from the future: clocks of nodes differ (CONTRACT 5). */
const clockSlack = 5 * 60_000

interface Decoded {
  state: ContextState
  /** Of a context that is sound, expired or not. */
  record: DecisionRecord | null
}

export interface ContextCodec {
  /** A fresh id; the context of that decision must be encoded with it. */
  nextId(): string
  /** `withFeatures`: false where they had no room beside the names. */
  encode(record: DecisionRecord): { text: string; withFeatures: boolean }
  decode(text: string | undefined, bidId: string, now: number): Decoded
}

/** Where ids come from; survives a change of keys, so that no nonce is used twice. */
export class Nonces {
  private readonly bytes = Buffer.alloc(nonceBytes)
  private counter = 0xffffffff

  next(): string {
    if (this.counter === 0xffffffff) {
      randomFillSync(this.bytes, 0, 8)
      this.counter = 0
    }
    this.counter++
    this.bytes.writeUInt32BE(this.counter, 8)
    return this.bytes.toString('base64url')
  }
}

const absent: Decoded = { state: 'absent', record: null }
const unexpanded: Decoded = { state: 'unexpanded', record: null }
const invalid: Decoded = { state: 'invalid', record: null }

/** `ttl` in milliseconds. The first key encodes, all decode. */
export function createContextCodec(
  keys: readonly ContextKey[],
  ttl: number,
  nonces: Nonces,
): ContextCodec {
  const ring = new Map<number, Sealer>()
  for (const { id, secret } of keys) ring.set(id, createSealer(secret))
  const first = keys[0] === undefined ? null : { id: keys[0].id, sealer: ring.get(keys[0].id)! }
  const out = Buffer.alloc(headBytes + recordRoom + longestPlain + tagBytes)

  function encode(record: DecisionRecord): { text: string; withFeatures: boolean } {
    if (first === null) return { text: '', withFeatures: false }
    out[0] = version
    out[1] = first.id
    out.write(record.id, nonceAt, 'base64url')
    let end = writeRecord(out, headBytes, record)
    // The longest names leave no room for what only explains.
    if (end - headBytes > longestPlain) end = writeRecord(out, headBytes, record, false)
    const withFeatures = end - headBytes + record.features.length <= longestPlain
    if (withFeatures) {
      out.set(record.features, end)
      end += record.features.length
    }
    first.sealer.seal(out, headBytes, end, nonceAt, record.bidId)
    return { text: out.toString('base64url', 0, end + tagBytes), withFeatures }
  }

  function open(text: string, bidId: string): DecisionRecord | null {
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length < headBytes + tagBytes || bytes[0] !== version) return null
    // one spelling only: base64 readers skip what they do not know
    if (bytes.toString('base64url') !== text) return null
    if (ring.get(bytes[1]!)?.open(bytes, headBytes, nonceAt, bidId) !== true) return null
    const id = bytes.toString('base64url', nonceAt, headBytes)
    return readRecord(bytes, headBytes, bytes.length - tagBytes, id, bidId)
  }

  function decode(text: string | undefined, bidId: string, now: number): Decoded {
    if (text === undefined || text === '') return absent
    if (text.includes('${') || /%24%7b/i.test(text)) return unexpanded
    if (text.length > longestContext) return invalid
    const record = open(text, bidId)
    if (record === null || record.at > now + clockSlack) return invalid
    return { state: record.at < now - ttl ? 'expired' : 'valid', record }
  }

  return { nextId: () => nonces.next(), encode, decode }
}
