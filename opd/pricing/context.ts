/**
 * The OPD context: base64url of
 *
 *   version  key id  nonce          ciphertext of the record   tag
 *   1        1       8 + 4 counter  up to 354                  16
 *
 * Authenticated encryption (`createSealer`); associated data: version, key id and bid id. The nonce is 64 random bits of this
 * process and a 32-bit counter. The random part is drawn again before the counter wraps, so that no two contexts share a
 * nonce, on any node: 10,000/s for ten years on a thousand nodes draw under a million prefixes, with a probability of a
 * collision of 1 in 10^7. The nonce is also the id of the decision.
 */
import {
  type Cipheriv,
  createCipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomFillSync,
  timingSafeEqual,
} from 'node:crypto'
import { endianness } from 'node:os'
import { Poly1305, tagBytes } from '../base/poly1305.ts'
import type { ContextKey } from '../config.ts'
import type { ContextState, DecisionRecord } from '../types.ts'
import {
  maxRecordBytes,
  type RecordForm,
  readRecord,
  type WrittenRecord,
  wholeRecord,
  writeRecord,
  writeUtf8,
} from './record.ts'

/**
 * Authenticated encryption of short messages, as in RFC 8439 2.8 with AES-256-CTR in place of ChaCha20: the key stream of a
 * message begins with its one-time key for Poly1305, and the rest encrypts it. One cipher makes the key stream of 32 messages
 * at once. With AES-256-GCM a message takes 3.5 us in Node, most of it for the cipher object. Why this is secure:
 * docs/architecture/decisions/0013-one-time-authenticator.md.
 *
 *   counter block   8 random bytes of the process | message number * 26 + block
 *   key stream      32 bytes: the one-time key | 384 bytes
 *   authenticated   lengths | head | ciphertext | associated data
 *
 * A message number must not be used twice: the key stream and the one-time key of both messages would be the same.
 */

const nonceBytes = 12
/** Bytes. */
const longestMessage = 384
const keyWords = 8
const wordsPerMessage = keyWords + longestMessage / 4
const blocksPerMessage = wordsPerMessage / 4
const messagesPerPool = 32
/** Of typed arrays, which have the order of the machine. */
const isLittleEndian = endianness() === 'LE'
const lengthsBytes = 4
const longestAssociated = 512

/** Encrypts and authenticates messages with one key. */
class Sealer {
  /** The message: write its head here before `seal`, and read it before the next call. */
  readonly message: Buffer
  private readonly headBytes: number
  private readonly cipherKey: KeyObject
  private readonly poly1305 = new Poly1305()
  private readonly lengthsAt: number
  private readonly messageAt: number
  /** The plain text in the message. */
  private readonly words: Int32Array
  private readonly zeros = Buffer.alloc(4 * wordsPerMessage * messagesPerPool)
  private readonly counterBlock = Buffer.alloc(16)
  /** Continues with the key stream of the message after the pool. */
  private cipher: Cipheriv | null = null
  private pool: Int32Array = new Int32Array(0)
  private readonly poolPrefix = Buffer.alloc(8)
  private poolFirst = -1

  constructor(secret: Uint8Array, headBytes: number) {
    this.headBytes = headBytes
    this.cipherKey = createSecretKey(
      Buffer.from(hkdfSync('sha256', secret, '', 'bidweir context v1', 32)),
    )
    const { memory } = this.poly1305
    // The plain text begins at a multiple of four, so that it is encrypted word by word.
    this.lengthsAt = -(lengthsBytes + headBytes) & 3
    this.messageAt = this.lengthsAt + lengthsBytes
    this.message = memory.subarray(this.messageAt)
    const textAt = this.message.byteOffset + headBytes
    this.words = new Int32Array(memory.buffer, textAt, longestMessage / 4)
  }

  /**
   * Encrypts `plain` into the message, appends the tag, and returns the end. `nonceAt` is the offset of the nonce in the
   * head.
   */
  seal({ view, start, end: plainEnd }: WrittenRecord, nonceAt: number, associated: string): number {
    const from = this.pooled(nonceAt)
    const { words, pool } = this
    const { key } = this.poly1305
    for (let word = 0; word < keyWords; word++) key[word] = pool[from + word]!
    const length = plainEnd - start
    const textFrom = from + keyWords
    for (let word = 0; word * 4 < length; word++)
      words[word] = view.getInt32(start + 4 * word, isLittleEndian) ^ pool[textFrom + word]!
    const end = this.headBytes + length
    this.authenticate(end, associated)
    return end + tagBytes
  }

  /** Decrypts in place; false: forged, truncated, or for other associated data. `bytes` ends with the tag. */
  open(bytes: Buffer, nonceAt: number, associated: string): boolean {
    const { message, headBytes } = this
    const end = bytes.length - tagBytes
    if (end < headBytes || end - headBytes > longestMessage) return false
    bytes.copy(message, 0, 0, end)
    const stream = this.cipherAt(nonceAt, message.readUInt32BE(nonceAt + 8))
    this.poly1305.key.set(wordsOf(stream.update(this.zeros.subarray(0, 4 * keyWords))))
    this.authenticate(end, associated)
    if (!timingSafeEqual(message.subarray(end, end + tagBytes), bytes.subarray(end))) return false
    bytes.set(stream.update(bytes.subarray(headBytes, end)), headBytes)
    return true
  }

  /** A cipher whose key stream begins with the message of the nonce. */
  private cipherAt(nonceAt: number, first: number): Cipheriv {
    const { counterBlock } = this
    this.message.copy(counterBlock, 0, nonceAt, nonceAt + 8)
    const block = first * blocksPerMessage
    counterBlock.writeUInt32BE(Math.floor(block / 2 ** 32), 8)
    counterBlock.writeUInt32BE(block % 2 ** 32, 12)
    return createCipheriv('aes-256-ctr', this.cipherKey, counterBlock)
  }

  private hasPrefix(nonceAt: number): boolean {
    const { message, poolPrefix } = this
    for (let index = 0; index < 8; index++)
      if (message[nonceAt + index] !== poolPrefix[index]) return false
    return true
  }

  /** Index in the pool of the key stream for the nonce. */
  private pooled(nonceAt: number): number {
    const number = this.message.readUInt32BE(nonceAt + 8)
    const index = number - this.poolFirst
    const isSamePrefix = this.hasPrefix(nonceAt)
    if (index >= 0 && index < messagesPerPool && isSamePrefix) return index * wordsPerMessage
    const continued = index === messagesPerPool && isSamePrefix ? this.cipher : null
    this.cipher = continued ?? this.cipherAt(nonceAt, number)
    this.pool = wordsOf(this.cipher.update(this.zeros))
    this.message.copy(this.poolPrefix, 0, nonceAt, nonceAt + 8)
    this.poolFirst = number
    return 0
  }

  /** Writes the tag of the message up to `end`, and of the associated data, to `end`. The key is the message's own. */
  private authenticate(end: number, associated: string): void {
    const { poly1305, lengthsAt, messageAt } = this
    const isShort = associated.length * 3 <= longestAssociated
    const data = isShort ? associated : hash('sha256', associated, 'base64url')
    poly1305.memory.writeUInt16BE(end, lengthsAt)
    poly1305.memory[lengthsAt + 2] = isShort ? 0 : 1
    const stop = writeUtf8(this.message, end, data)
    poly1305.authenticate(lengthsAt, messageAt + stop, messageAt + end)
  }
}

const wordsOf = ({ buffer, byteOffset, length }: Buffer) =>
  new Int32Array(buffer, byteOffset, length / 4)

const version = 1
const nonceAt = 2
const headBytes = nonceAt + nonceBytes
const longestContext = 512
const longestPlain = (longestContext / 4) * 3 - headBytes - tagBytes
/** The forms that are tried in this order until a record fits together with its features. */
const forms: readonly RecordForm[] = [
  wholeRecord,
  { explained: false, facets: true, seat: true },
  { explained: false, facets: false, seat: true },
  { explained: false, facets: false, seat: false },
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
   * `withFeatures` is false if the features of the model did not fit.
   *
   * @param record has the id that was drawn last
   * @param written the record as a bid log wrote it, which is then not written again
   * @throws if the id is another one, or a record with it was encoded before
   */
  encode(
    record: DecisionRecord,
    written?: WrittenRecord | null,
  ): { text: string; withFeatures: boolean }
  /**
   * Never throws, whatever the text.
   *
   * @param text the value of `svc_opd`, decoded from the URL; undefined or empty: absent
   * @param bidId `id` of the bid, with which the context is authenticated
   * @param now milliseconds since the epoch, by which it may have expired
   */
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
  use(id: string, into: Buffer, offset: number): void {
    if (id !== this.last || id === '') throw new Error('a context was encoded with a used nonce')
    this.last = ''
    for (let index = 0; index < nonceBytes; index++) into[offset + index] = this.bytes[index]!
  }
}

const absent: Decoded = { state: 'absent', record: null }
const unexpanded: Decoded = { state: 'unexpanded', record: null }
const invalid: Decoded = { state: 'invalid', record: null }

/**
 * The first key encodes; all keys decode.
 *
 * @param keys without keys nothing is encoded or decoded
 * @param ttl milliseconds for which a context is valid
 * @param nonces of this process; two codecs of one key must share them
 */
export function createContextCodec(
  keys: readonly ContextKey[],
  ttl: number,
  nonces: Nonces,
): ContextCodec {
  const ring = new Map<number, Sealer>()
  for (const { id, secret } of keys) ring.set(id, new Sealer(secret, headBytes))
  const first = keys[0] === undefined ? null : { id: keys[0].id, sealer: ring.get(keys[0].id)! }
  const plain = Buffer.alloc(maxRecordBytes + longestPlain)
  const ownRecord: WrittenRecord = {
    view: new DataView(plain.buffer, plain.byteOffset),
    start: 0,
    end: 0,
  }

  /** Writes a record in the first form that fits together with its features. Returns whether the features are part of it. */
  function write(record: DecisionRecord): boolean {
    const { features } = record
    const lengthOf = (form: RecordForm) => writeRecord(plain, 0, record, form)
    const form = forms.find((form) => lengthOf(form) + features.length <= longestPlain)
    const withFeatures = form !== undefined
    // If no form leaves room for the features, the record is written without them, in the first form that fits.
    const end = lengthOf(form ?? forms.find((form) => lengthOf(form) <= longestPlain)!)
    if (withFeatures) plain.set(features, end)
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
    const { sealer } = first
    const { message } = sealer
    message[0] = version
    message[1] = first.id
    nonces.use(record.id, message, nonceAt)
    const end = sealer.seal(fits ? written : ownRecord, nonceAt, record.bidId)
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
    if (record === null || record.decidedAt > now + clockSlack) return invalid
    return { state: record.decidedAt < now - ttl ? 'expired' : 'valid', record }
  }

  return { nextId: () => nonces.next(), encode, decode }
}
