/** A body as its chunks arrive. Its bytes count towards the node's memory budget until the request ends. */

import type { OpenRtbFormat } from '../../opd/types.ts'
import type { Budget } from '../admission/overload.ts'
import { type Body, bytesOf, type Inbound } from '../types.ts'
import { requestEncoding, requestFormat } from './encoding.ts'
import type { RequestDecoder } from './request-decoder.ts'

/** After 16 chunks, small ones are copied into blocks: a Buffer object takes about 100 bytes even for one byte. */
const separateChunks = 16
const smallChunk = 1024
const blockLength = 16 * 1024
const empty = Buffer.alloc(0)

export class BodyBuffer {
  /** Bytes that were added and not read yet. */
  length = 0
  private separate: Buffer[] = []
  /** The last chunks, if they were small: `used` bytes that follow `separate`. */
  private block: Buffer | null = null
  private used = 0
  private counted = 0
  private readonly budget: Budget

  constructor(budget: Budget) {
    this.budget = budget
  }

  addChunk(chunk: Buffer): void {
    if (this.separate.length >= separateChunks && chunk.length <= smallChunk) this.copy(chunk)
    else {
      if (this.used > 0) this.closeBlock()
      this.separate.push(chunk)
    }
    this.length += chunk.length
    this.count(chunk.length)
  }

  private copy(chunk: Buffer): void {
    if (this.used + chunk.length > blockLength) this.closeBlock()
    this.block ??= Buffer.allocUnsafeSlow(blockLength)
    this.used += chunk.copy(this.block, this.used)
  }

  private closeBlock(): void {
    this.separate.push(this.block!.subarray(0, this.used))
    this.block = null
    this.used = 0
  }

  /** Counts bytes that the request occupies elsewhere until it ends, such as its decoded body. */
  count(bytes: number): void {
    this.counted += bytes
    this.budget.bytes += bytes
  }

  /** The same, unless the node would then exceed `limit`: false, and nothing is counted. */
  reserve(bytes: number, limit: number): boolean {
    if (this.budget.bytes + bytes > limit) return false
    this.count(bytes)
    return true
  }

  /** The bytes that were added, in one Buffer; the BodyBuffer is empty afterwards. */
  wholeBody(): Buffer {
    const { length } = this
    if (length === 0) return empty
    const chunks = this.chunks()
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length)
  }

  /** The same in several Buffers. */
  chunks(): Buffer[] {
    if (this.used > 0) this.closeBlock()
    const { separate } = this
    this.separate = []
    this.length = 0
    return separate
  }

  /** The request has ended: its bytes no longer count. */
  release(): void {
    this.budget.bytes -= this.counted
    this.counted = 0
  }
}

/** The body of one bid request: as received, for the supplier, and decoded, for OPD. */

export class RequestBody {
  /** As received; whole after `complete`. */
  wire: Body = ''
  /** null: not readable; undefined: most of it is not decoded yet. */
  decoded: Body | null | undefined = null
  format: OpenRtbFormat = 'json'
  /** Has the chunks until `complete`, and counts the bytes of both forms. */
  private readonly buffer: BodyBuffer

  constructor(buffer: BodyBuffer) {
    this.buffer = buffer
  }

  get length(): number {
    return Math.max(this.wire.length, this.buffer.length)
  }

  /** Takes a chunk, or the whole body as text. */
  addChunk(chunk: Body): void {
    if (typeof chunk === 'string') {
      this.wire = chunk
      this.buffer.count(chunk.length)
    } else this.buffer.addChunk(chunk)
  }

  /**
   * All of it has arrived. Returns the decoded part that may contain `tmax`; null: the request is not readable. A gzip body may
   * decode to a thousand times its length: only its beginning is decoded before it is sent. `openrtb`: the format that is
   * configured for the supplier.
   */
  complete(
    { head }: Inbound,
    openrtb: OpenRtbFormat,
    decoder: RequestDecoder,
  ): Body | null | 'overload' {
    if (this.wire === '') this.wire = this.buffer.wholeBody()
    this.format = requestFormat(head, openrtb)
    const encoding = requestEncoding(head)
    if (encoding !== 'gzip') {
      this.decoded = encoding === null ? null : this.wire
      return this.decoded
    }
    this.wire = bytesOf(this.wire)
    const start = decoder.start(this.wire)
    if (start === 'overload') return 'overload'
    this.decoded = start.isWhole ? start.bytes : undefined
    this.buffer.count(this.decoded?.length ?? 0)
    return start.bytes
  }

  /**
   * The whole request for OPD, asked for only when a bid is to be priced; null: not readable. A request that `isDone` is not
   * decoded. `onOverload`: called if too many requests are decoded already.
   */
  wholeRequest(
    decoder: RequestDecoder,
    isDone: () => boolean,
    onOverload: () => void,
  ): Body | null | Promise<Buffer | null> {
    const { decoded } = this
    return decoded === undefined ? this.decodeWhole(decoder, isDone, onOverload) : decoded
  }

  private async decodeWhole(
    decoder: RequestDecoder,
    isDone: () => boolean,
    onOverload: () => void,
  ): Promise<Buffer | null> {
    const decoded = await decoder.decodeWhole(bytesOf(this.wire), () => !isDone())
    if (isDone() || decoded === null) return null
    if (decoded !== 'overload') {
      this.buffer.count(decoded.length)
      return decoded
    }
    onOverload()
    return null
  }
}
