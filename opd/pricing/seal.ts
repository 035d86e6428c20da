/**
 * Authenticated encryption of short messages: AES-256-CTR with a key stream for 32 messages at once, then HMAC-SHA-256
 * over everything, truncated to 128 bits (encrypt-then-MAC, as in RFC 7518 5.2.2). A message takes 2.2 us; with AES-256-GCM
 * it takes 3.5 us in Node, most of it for the cipher object.
 *
 *   counter block   8 random bytes of the process | message number * 24 + block
 *
 * A message number must not be used twice: the key stream of both messages would be the same.
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
import { writeLatin1, writeUtf8 } from '../base/utf8.ts'
import type { WrittenRecord } from './record.ts'

export const nonceBytes = 12
export const tagBytes = 16
/** Bytes. */
const longestMessage = 384
const blocksPerMessage = longestMessage / 16
const messagesPerPool = 32
/** Of typed arrays, which have the order of the machine. */
const isLittleEndian = endianness() === 'LE'
const padBytes = 64
/** Layout of the inner hash: ipad, lengths, head, ciphertext, associated data. */
const lengthsAt = padBytes
const bodyAt = lengthsAt + 4
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
  const derive = (purpose: string) =>
    Buffer.from(hkdfSync('sha256', secret, '', `bidweir context ${purpose} v1`, 32))
  const cipherKey = createSecretKey(derive('encryption'))
  const macKey = derive('authentication')
  // The plain text begins at a multiple of four, so that it is encrypted word by word.
  const lead = -(bodyAt + headBytes) & 3
  const longest = headBytes + longestMessage + Math.max(tagBytes, longestAssociated)
  const memory = new ArrayBuffer(lead + bodyAt + longest)
  const inner = Buffer.from(memory, lead)
  const message = Buffer.from(memory, lead + bodyAt)
  const words = new Int32Array(memory, lead + bodyAt + headBytes, longestMessage / 4)
  const outer = Buffer.alloc(padBytes + 32)
  for (let at = 0; at < padBytes; at++) {
    inner[at] = (macKey[at] ?? 0) ^ 0x36
    outer[at] = (macKey[at] ?? 0) ^ 0x5c
  }
  const zeros = Buffer.alloc(messagesPerPool * longestMessage)
  const counterBlock = Buffer.alloc(16)
  /** Continues with the key stream of the message after the pool. */
  let cipher: Cipheriv | null = null
  let pool = new Int32Array(0)
  const poolPrefix = Buffer.alloc(8)
  let poolFirst = -1
  /** Views of `inner` by length: a new one for each message takes as long as half of a hash. */
  const views: Buffer[] = []

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
    if (at >= 0 && at < messagesPerPool && isSamePrefix) return at * (longestMessage / 4)
    const isNext = cipher !== null && at === messagesPerPool && isSamePrefix
    cipher = isNext ? cipher : cipherAt(nonceAt, number)
    const { buffer, byteOffset } = cipher!.update(zeros)
    pool = new Int32Array(buffer, byteOffset, zeros.length / 4)
    message.copy(poolPrefix, 0, nonceAt, nonceAt + 8)
    poolFirst = number
    return 0
  }

  /** HMAC-SHA-256 of lengths, the message up to `end`, and associated data, as latin1 text. */
  function mac(end: number, associated: string): string {
    const short = associated.length * 3 <= longestAssociated
    const data = short ? associated : hash('sha256', associated, 'base64url')
    inner.writeUInt16BE(end, lengthsAt)
    inner[lengthsAt + 2] = short ? 0 : 1
    const stop = bodyAt + writeUtf8(message, end, data)
    views[stop] ??= inner.subarray(0, stop)
    writeLatin1(outer, padBytes, hash('sha256', views[stop], 'binary'))
    return hash('sha256', outer, 'binary')
  }

  return {
    message,
    seal({ view, start, end: plainEnd }, nonceAt, associated) {
      const from = pooled(nonceAt)
      const length = plainEnd - start
      for (let word = 0; word * 4 < length; word++)
        words[word] = view.getInt32(start + 4 * word, isLittleEndian) ^ pool[from + word]!
      const end = headBytes + length
      writeLatin1(message, end, mac(end, associated), tagBytes)
      return end + tagBytes
    },
    open(bytes, nonceAt, associated) {
      const end = bytes.length - tagBytes
      if (end < headBytes || end - headBytes > longestMessage) return false
      bytes.copy(message, 0, 0, end)
      const tag = Buffer.from(mac(end, associated), 'latin1').subarray(0, tagBytes)
      if (!timingSafeEqual(tag, bytes.subarray(end))) return false
      const stream = cipherAt(nonceAt, message.readUInt32BE(nonceAt + 8))
      bytes.set(stream.update(bytes.subarray(headBytes, end)), headBytes)
      return true
    },
  }
}
