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
import {
  type Cipheriv,
  createCipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  timingSafeEqual,
} from 'node:crypto'
import { endianness } from 'node:os'
import { Poly1305, tagBytes } from '../base/poly1305.ts'
import { writeUtf8 } from '../base/utf8.ts'
import type { WrittenRecord } from './record.ts'

export { tagBytes }
export const nonceBytes = 12
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

export interface Sealer {
  /** The message: write its head here before `seal`, and read it before the next call. */
  readonly message: Buffer
  /**
   * Encrypts `plain` into the message, appends the tag, and returns the end. `nonceAt` is the offset of the nonce in the
   * head.
   */
  seal(plain: WrittenRecord, nonceAt: number, associated: string): number
  /** Decrypts in place; false: forged, truncated, or for other associated data. `bytes` ends with the tag. */
  open(bytes: Buffer, nonceAt: number, associated: string): boolean
}

export function createSealer(secret: Uint8Array, headBytes: number): Sealer {
  const cipherKey = createSecretKey(
    Buffer.from(hkdfSync('sha256', secret, '', 'bidweir context v1', 32)),
  )
  const poly1305 = new Poly1305()
  const { memory, key } = poly1305
  // The plain text begins at a multiple of four, so that it is encrypted word by word.
  const lengthsAt = -(lengthsBytes + headBytes) & 3
  const messageAt = lengthsAt + lengthsBytes
  const message = memory.subarray(messageAt)
  const textAt = message.byteOffset + headBytes
  const words = new Int32Array(memory.buffer, textAt, longestMessage / 4)
  const zeros = Buffer.alloc(4 * wordsPerMessage * messagesPerPool)
  const counterBlock = Buffer.alloc(16)
  /** Continues with the key stream of the message after the pool. */
  let cipher: Cipheriv | null = null
  let pool: Int32Array = new Int32Array(0)
  const poolPrefix = Buffer.alloc(8)
  let poolFirst = -1

  /** A cipher whose key stream begins with the message of the nonce. */
  function cipherAt(nonceAt: number, first: number): Cipheriv {
    message.copy(counterBlock, 0, nonceAt, nonceAt + 8)
    const block = first * blocksPerMessage
    counterBlock.writeUInt32BE(Math.floor(block / 2 ** 32), 8)
    counterBlock.writeUInt32BE(block % 2 ** 32, 12)
    return createCipheriv('aes-256-ctr', cipherKey, counterBlock)
  }

  function hasPrefix(nonceAt: number): boolean {
    for (let at = 0; at < 8; at++) if (message[nonceAt + at] !== poolPrefix[at]) return false
    return true
  }

  /** Index in the pool of the key stream for the nonce. */
  function pooled(nonceAt: number): number {
    const number = message.readUInt32BE(nonceAt + 8)
    const at = number - poolFirst
    const isSamePrefix = hasPrefix(nonceAt)
    if (at >= 0 && at < messagesPerPool && isSamePrefix) return at * wordsPerMessage
    const isNext = cipher !== null && at === messagesPerPool && isSamePrefix
    cipher = isNext ? cipher : cipherAt(nonceAt, number)
    pool = wordsOf(cipher!.update(zeros))
    message.copy(poolPrefix, 0, nonceAt, nonceAt + 8)
    poolFirst = number
    return 0
  }

  /** Writes the tag of the message up to `end`, and of the associated data, to `end`. `key` is the message's own. */
  function authenticate(end: number, associated: string): void {
    const isShort = associated.length * 3 <= longestAssociated
    const data = isShort ? associated : hash('sha256', associated, 'base64url')
    memory.writeUInt16BE(end, lengthsAt)
    memory[lengthsAt + 2] = isShort ? 0 : 1
    const stop = writeUtf8(message, end, data)
    poly1305.authenticate(lengthsAt, messageAt + stop, messageAt + end)
  }

  return {
    message,
    seal({ view, start, end: plainEnd }, nonceAt, associated) {
      const from = pooled(nonceAt)
      for (let word = 0; word < keyWords; word++) key[word] = pool[from + word]!
      const length = plainEnd - start
      const textFrom = from + keyWords
      for (let word = 0; word * 4 < length; word++)
        words[word] = view.getInt32(start + 4 * word, isLittleEndian) ^ pool[textFrom + word]!
      const end = headBytes + length
      authenticate(end, associated)
      return end + tagBytes
    },
    open(bytes, nonceAt, associated) {
      const end = bytes.length - tagBytes
      if (end < headBytes || end - headBytes > longestMessage) return false
      bytes.copy(message, 0, 0, end)
      const stream = cipherAt(nonceAt, message.readUInt32BE(nonceAt + 8))
      key.set(wordsOf(stream.update(zeros.subarray(0, 4 * keyWords))))
      authenticate(end, associated)
      if (!timingSafeEqual(message.subarray(end, end + tagBytes), bytes.subarray(end))) return false
      bytes.set(stream.update(bytes.subarray(headBytes, end)), headBytes)
      return true
    },
  }
}

const wordsOf = ({ buffer, byteOffset, length }: Buffer) =>
  new Int32Array(buffer, byteOffset, length / 4)
