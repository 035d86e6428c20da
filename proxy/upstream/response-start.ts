/**
 * The first bytes of a response, before undici reads them. undici accepts any version and does not report it, and it
 * ends the connection at a `100 Continue` that it did not ask for, which a client must pass over (RFC 9110 15.2).
 */
import {
  blankLine,
  maxHead,
  maxInterim,
  partialHeadFault,
  readResponseHead,
} from '../wire/response-head.ts'

/** Version and status. */
const startLength = 'HTTP/1.1 200'.length
const start = /^HTTP\/1\.[01] [1-9]/

export class ResponseStart {
  /** `HTTP/1.1` or `HTTP/1.0`, of the final response; '' until it begins. */
  version = ''
  private partial: Buffer | null = null
  private interim = 0

  /** The next bytes are those of another response. */
  reset(): void {
    this.version = ''
    this.partial = null
    this.interim = 0
  }

  /** The bytes of `chunk` that belong to the final response, null if there are none, or the fault of the response. */
  read(chunk: Buffer): Buffer | string | null {
    if (this.version !== '') return chunk
    let bytes = this.partial === null ? chunk : Buffer.concat([this.partial, chunk])
    this.partial = null
    while (bytes.length > 0) {
      const text = bytes.toString('latin1', 0, startLength)
      if (text.length < startLength) return this.incomplete(bytes)
      // Nobody has asked for another protocol.
      if (!start.test(text) || text.endsWith('101')) return 'not an HTTP/1 response'
      if (text[9] !== '1') {
        // Of a reason phrase that arrives in parts, undici takes the last part for all of it.
        if (!bytes.includes('\n')) return this.incomplete(bytes)
        this.version = text.slice(0, 8)
        return bytes
      }
      const end = bytes.indexOf(blankLine)
      if (end < 0 || end > maxHead) return this.incomplete(bytes)
      if (readResponseHead(bytes.toString('latin1', 0, end + 2)) === null)
        return 'a malformed interim response'
      if (++this.interim > maxInterim) return 'too many interim responses'
      bytes = bytes.subarray(end + blankLine.length)
    }
    return null
  }

  private incomplete(bytes: Buffer): string | null {
    this.partial = bytes
    return partialHeadFault(bytes)
  }
}
