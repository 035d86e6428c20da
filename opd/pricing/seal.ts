/**
 * Authenticated encryption of short messages: AES-256-CTR with a key stream for 128 messages at once, then HMAC-SHA-256
 * over everything, truncated to 128 bits (encrypt-then-MAC, as in RFC 7518 5.2.2). A message takes 2.2 us; with AES-256-GCM
 * it takes 3.5 us in Node, most of it for the cipher object.
 *
 *   counter block   8 random bytes of the process | message number * 24 + block
 *
 * A message number must not be used twice: the key stream of both messages would be the same.
 */
import { createCipheriv, createSecretKey, hash, hkdfSync, timingSafeEqual } from 'node:crypto'
import { endianness } from 'node:os'
import type { WrittenRecord } from './record.ts'

export const nonceBytes = 12
export const tagBytes = 16
/** Bytes. */
const longestMessage = 384
const blocksPerMessage = longestMessage / 16
const messagesPerPool = 128
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
  const pool = new Int32Array((messagesPerPool * longestMessage) / 4)
  const poolBytes = new Uint8Array(pool.buffer)
  const poolPrefix = Buffer.alloc(8)
  let poolFirst = -1

  function keyStream(nonceAt: number, first: number, messages: number): Buffer {
    message.copy(counterBlock, 0, nonceAt, nonceAt + 8)
    const block = first * blocksPerMessage
    counterBlock.writeUInt32BE(Math.floor(block / 2 ** 32), 8)
    counterBlock.writeUInt32BE(block % 2 ** 32, 12)
    return createCipheriv('aes-256-ctr', cipherKey, counterBlock).update(
      zeros.subarray(0, messages * longestMessage),
    )
  }

  /** Index in the pool of the key stream for the nonce. */
  function pooled(nonceAt: number): number {
    const number = message.readUInt32BE(nonceAt + 8)
    const at = number - poolFirst
    if (
      at >= 0 &&
      at < messagesPerPool &&
      message.compare(poolPrefix, 0, 8, nonceAt, nonceAt + 8) === 0
    )
      return at * (longestMessage / 4)
    poolBytes.set(keyStream(nonceAt, number, messagesPerPool))
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
    const stop = bodyAt + end + message.write(data, end, 'utf8')
    outer.write(hash('sha256', inner.subarray(0, stop), 'binary'), padBytes, 'latin1')
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
      message.write(mac(end, associated), end, tagBytes, 'latin1')
      return end + tagBytes
    },
    open(bytes, nonceAt, associated) {
      const end = bytes.length - tagBytes
      if (end < headBytes || end - headBytes > longestMessage) return false
      bytes.copy(message, 0, 0, end)
      const tag = Buffer.from(mac(end, associated), 'latin1').subarray(0, tagBytes)
      if (!timingSafeEqual(tag, bytes.subarray(end))) return false
      const stream = keyStream(nonceAt, message.readUInt32BE(nonceAt + 8), 1)
      for (let at = headBytes; at < end; at++) bytes[at]! ^= stream[at - headBytes]!
      return true
    },
  }
}
