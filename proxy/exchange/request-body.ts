/** The body of one bid request: as received, for the supplier, and decoded, for OPD. */
import type { OpenRtbFormat } from '../../opd/types.ts'
import { type Body, bytesOf, type Inbound } from '../types.ts'
import type { BodyBuffer } from './body-buffer.ts'
import { requestFormat } from './content-type.ts'
import { requestEncoding } from './encoding.ts'
import type { RequestDecoder } from './request-decoder.ts'

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
    this.decoded = start.whole ? start.bytes : undefined
    this.buffer.count(this.decoded?.length ?? 0)
    return start.bytes
  }

  /**
   * The whole request for OPD, asked for only when a bid is to be priced; null: not readable. A request that `isDone` is not
   * decoded. `onOverload`: called if too many requests are decoded already.
   */
  whole(
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
    const decoded = await decoder.whole(bytesOf(this.wire), () => !isDone())
    if (isDone() || decoded === null) return null
    if (decoded !== 'overload') {
      this.buffer.count(decoded.length)
      return decoded
    }
    onOverload()
    return null
  }
}
