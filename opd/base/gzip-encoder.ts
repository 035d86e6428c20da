/**
 * gzip for messages of up to 64 KiB, in WebAssembly (opd/wasm/gzip). A bid of 3 KB takes some 40 % of the time of zlib at level 1
 * with a kept handle, and has 1 % more bytes (`npm run bench:proxy -- --only roads`).
 */
import { crc32 } from 'node:zlib'
import { code } from './gzip-module.ts'
import { moduleOf } from './wasm.ts'

interface Exports {
  memory: { buffer: ArrayBuffer }
  /** Addresses. */
  input: { value: number }
  output: { value: number }
  encode(length: number): number
}

/** Bytes of the longest message: that of a block without codes (RFC 1951 3.2.4). */
export const maxMessage = 65_535
/** Bytes of a member that are not of the block: CRC-32 and length (RFC 1952 2.3.1). */
const tailBytes = 8
/** Bytes of the longest output: codes of at most 15 bits for each byte. */
const maxOutput = 2 * 65_536 + 512

const newInstance = moduleOf<Exports>(code)

export class GzipEncoder {
  private readonly input: Buffer
  private readonly output: Buffer
  private readonly exports: Exports

  constructor() {
    this.exports = newInstance()
    const { memory, input, output } = this.exports
    this.input = Buffer.from(memory.buffer, input.value, maxMessage)
    this.output = Buffer.from(memory.buffer, output.value, maxOutput + tailBytes)
  }

  /**
   * A gzip member (RFC 1952) with the message. Its bytes depend on earlier messages, whose codes it uses.
   *
   * @param message - bytes, or latin1 text; at most `maxMessage`, else null is returned
   */
  encode(message: Uint8Array | string): Buffer | null {
    const { length } = message
    if (length > maxMessage) return null
    const { input, output } = this
    if (typeof message === 'string') input.write(message, 'latin1')
    else input.set(message)
    const end = this.exports.encode(length)
    output.writeUInt32LE(crc32(input.subarray(0, length)), end)
    output.writeUInt32LE(length, end + 4)
    const member = Buffer.allocUnsafe(end + tailBytes)
    member.set(output.subarray(0, member.length))
    return member
  }
}
