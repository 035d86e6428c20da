/**
 * The OPD context: base64url of
 *
 *   version  key id  nonce          ciphertext of the record   tag
 *   1        1       8 + 4 counter  up to 354                  16
 *
 * Authenticated encryption (`seal.ts`); associated data: version, key id and bid id. The nonce is 64 random bits of this
 * process and a 32-bit counter. The random part is drawn again before the counter wraps, so that no two contexts share a
 * nonce, on any node: 10,000/s for ten years on a thousand nodes draw under a million prefixes, with a probability of a
 * collision of 1 in 10^7. The nonce is also the id of the decision.
 */
import { randomFillSync } from 'node:crypto'
import type { ContextKey } from '../config.ts'
import type { ContextState, DecisionRecord } from '../types.ts'
import {
  maxRecordBytes,
  type RecordForm,
  readRecord,
  type WrittenRecord,
  wholeRecord,
  writeRecord,
} from './record.ts'
import { createSealer, nonceBytes, type Sealer, tagBytes } from './seal.ts'

const version = 1
const nonceAt = 2
const headBytes = nonceAt + nonceBytes
const longestContext = 512
const longestPlain = (longestContext / 4) * 3 - headBytes - tagBytes
/** The forms that are tried in this order until a record fits together with its features. */
const forms: readonly RecordForm[] = [
  wholeRecord,
  { explained: false, seat: true },
  { explained: false, seat: false },
]
/** Milliseconds. The clocks of two nodes may differ by this much (CONTRACT 5). */
const clockSlack = 5 * 60_000

interface Decoded {
  state: ContextState
  /** Set if the context is valid or expired. */
  record: DecisionRecord | null
}

export interface ContextCodec {
  /** A new decision id. */
  nextId(): string
  /**
   * `record` has the id that was drawn last, and is encoded once; otherwise it throws. `written`: the record as a bid log wrote
   * it. `withFeatures` is false if the features did not fit.
   */
  encode(
    record: DecisionRecord,
    written?: WrittenRecord | null,
  ): { text: string; withFeatures: boolean }
  decode(text: string | undefined, bidId: string, now: number): Decoded
}

/** Source of decision ids. It is kept when keys change, so that no nonce is used twice. */
export class Nonces {
  private readonly bytes = Buffer.alloc(nonceBytes)
  private counter = 0xffffffff
  /** The id that was drawn last; '' once it was used. */
  private last = ''

  next(): string {
    if (this.counter === 0xffffffff) {
      randomFillSync(this.bytes, 0, 8)
      this.counter = 0
    }
    this.counter++
    this.bytes.writeUInt32BE(this.counter, 8)
    this.last = this.bytes.toString('base64url')
    return this.last
  }

  /**
   * Writes the bytes of the id that was drawn last, once: two contexts with one nonce would have the same key stream, and the
   * same key of the authenticator. Throws if it is another id.
   */
  use(id: string, into: Buffer, at: number): void {
    if (id !== this.last || id === '') throw new Error('a context was encoded with a used nonce')
    this.last = ''
    for (let index = 0; index < nonceBytes; index++) into[at + index] = this.bytes[index]!
  }
}

const absent: Decoded = { state: 'absent', record: null }
const unexpanded: Decoded = { state: 'unexpanded', record: null }
const invalid: Decoded = { state: 'invalid', record: null }

/** `ttl` in milliseconds. The first key encodes; all keys decode. */
export function createContextCodec(
  keys: readonly ContextKey[],
  ttl: number,
  nonces: Nonces,
): ContextCodec {
  const ring = new Map<number, Sealer>()
  for (const { id, secret } of keys) ring.set(id, createSealer(secret, headBytes))
  const first = keys[0] === undefined ? null : { id: keys[0].id, sealer: ring.get(keys[0].id)! }
  const own = Buffer.alloc(maxRecordBytes + longestPlain)
  const ownRecord: WrittenRecord = {
    view: new DataView(own.buffer, own.byteOffset),
    start: 0,
    end: 0,
  }

  /** Writes a record in the first form that fits together with its features. Returns whether the features are part of it. */
  function write(record: DecisionRecord): boolean {
    const { features } = record
    const lengthOf = (form: RecordForm) => writeRecord(own, 0, record, form)
    const form = forms.find((each) => lengthOf(each) + features.length <= longestPlain)
    const withFeatures = form !== undefined
    // If no form leaves room for the features, the record is written without them, in the first form that fits.
    const end = lengthOf(form ?? forms.find((each) => lengthOf(each) <= longestPlain)!)
    if (withFeatures) own.set(features, end)
    ownRecord.end = withFeatures ? end + features.length : end
    return withFeatures
  }

  function encode(
    record: DecisionRecord,
    written: WrittenRecord | null = null,
  ): { text: string; withFeatures: boolean } {
    if (first === null) return { text: '', withFeatures: false }
    const fits = written !== null && written.end - written.start <= longestPlain
    const withFeatures = fits || write(record)
    const { message, seal } = first.sealer
    message[0] = version
    message[1] = first.id
    nonces.use(record.id, message, nonceAt)
    const end = seal(fits ? written : ownRecord, nonceAt, record.bidId)
    return { text: message.toString('base64url', 0, end), withFeatures }
  }

  function open(text: string, bidId: string): DecisionRecord | null {
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length < headBytes + tagBytes || bytes[0] !== version) return null
    // Accept one spelling only: a base64 decoder skips unknown characters.
    if (bytes.toString('base64url') !== text) return null
    if (ring.get(bytes[1]!)?.open(bytes, nonceAt, bidId) !== true) return null
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
