/**
 * HPACK, the compression of header fields in HTTP/2 (RFC 7541). Responses are written without its dynamic table: theirs are
 * few and constant.
 */
import { decodeHuffman } from './huffman.ts'

/** Appendix A. Names without a value have the empty one. */
const staticFields: readonly (readonly [name: string, value: string])[] = [
  ...[':authority', ':method GET', ':method POST', ':path /', ':path /index.html'],
  ...[':scheme http', ':scheme https', ':status 200', ':status 204', ':status 206'],
  ...[':status 304', ':status 400', ':status 404', ':status 500', 'accept-charset'],
  ...['accept-encoding gzip, deflate', 'accept-language', 'accept-ranges', 'accept'],
  ...['access-control-allow-origin', 'age', 'allow', 'authorization', 'cache-control'],
  ...['content-disposition', 'content-encoding', 'content-language', 'content-length'],
  ...['content-location', 'content-range', 'content-type', 'cookie', 'date', 'etag', 'expect'],
  ...['expires', 'from', 'host', 'if-match', 'if-modified-since', 'if-none-match', 'if-range'],
  ...['if-unmodified-since', 'last-modified', 'link', 'location', 'max-forwards'],
  ...['proxy-authenticate', 'proxy-authorization', 'range', 'referer', 'refresh', 'retry-after'],
  ...['server', 'set-cookie', 'strict-transport-security', 'transfer-encoding', 'user-agent'],
  ...['vary', 'via', 'www-authenticate'],
].map((field) => {
  const space = field.indexOf(' ')
  return space < 0 ? [field, ''] : [field.slice(0, space), field.slice(space + 1)]
})

/** Bytes of the dynamic table, by the rule of RFC 7541 4.1; the default, which no setting of ours changes. */
const maxTableSize = 4096
const entryOverhead = 32

/** Bytes of a name and a value of a field, with the overhead that counts for lists too (RFC 9113 6.5.2). */
const sizeOf = (name: string, value: string) => name.length + value.length + entryOverhead

/** Receives one field of a list. Bytes are latin1. */
export type OnField = (name: string, value: string, size: number) => void

class CompressionError extends Error {
  override name = 'CompressionError'
}
/** Without a stack: a caller may send many of them. */
const malformed = new CompressionError('not a list of compressed header fields')
delete malformed.stack

/** Decodes the lists of one connection, in the order in which they arrive. */
export class HeaderDecoder {
  private readonly names: string[] = []
  private readonly values: string[] = []
  private size = 0
  private maxSize = maxTableSize
  private bytes: Buffer = Buffer.alloc(0)
  private offset = 0
  private end = 0

  /**
   * Decodes one list.
   *
   * @returns false: the bytes are no such list, and no later list of the connection can be decoded
   */
  decode(bytes: Buffer, start: number, end: number, onField: OnField): boolean {
    this.bytes = bytes
    this.offset = start
    this.end = end
    let hasFields = false
    try {
      while (this.offset < this.end) {
        const first = bytes[this.offset]!
        if ((first & 0xe0) === 0x20) {
          if (hasFields) return false
          this.resize(this.integer(5))
          continue
        }
        hasFields = true
        this.field(first, onField)
      }
      return true
    } catch (error) {
      if (error === malformed) return false
      throw error
    }
  }

  private field(first: number, onField: OnField): void {
    if (first >= 0x80) {
      const index = this.integer(7)
      if (index === 0) throw malformed
      const [name, value] = [this.nameAt(index), this.valueAt(index)]
      onField(name, value, sizeOf(name, value))
      return
    }
    const isAdded = first >= 0x40
    const index = this.integer(isAdded ? 6 : 4)
    const name = index === 0 ? this.text() : this.nameAt(index)
    const value = this.text()
    const size = sizeOf(name, value)
    if (isAdded) this.addEntry(name, value, size)
    onField(name, value, size)
  }

  /** Indexes begin at 1: the static table, then the dynamic one, newest first. */
  private nameAt(index: number): string {
    if (index <= staticFields.length) return staticFields[index - 1]![0]
    return this.names[this.position(index)]!
  }

  private valueAt(index: number): string {
    if (index <= staticFields.length) return staticFields[index - 1]![1]
    return this.values[this.position(index)]!
  }

  private position(index: number): number {
    const position = this.names.length - (index - staticFields.length)
    if (position < 0) throw malformed
    return position
  }

  private addEntry(name: string, value: string, size: number): void {
    this.evict(this.maxSize - size)
    if (size > this.maxSize) return
    this.names.push(name)
    this.values.push(value)
    this.size += size
  }

  private resize(size: number): void {
    if (size > maxTableSize) throw malformed
    this.maxSize = size
    this.evict(size)
  }

  /** Removes the oldest entries until at most `most` bytes remain. */
  private evict(most: number): void {
    while (this.size > most && this.names.length > 0)
      this.size -= sizeOf(this.names.shift()!, this.values.shift()!)
  }

  private byte(): number {
    if (this.offset >= this.end) throw malformed
    return this.bytes[this.offset++]!
  }

  /** An integer whose first byte has it in the low `bits` (RFC 7541 5.1). */
  private integer(bits: number): number {
    const most = (1 << bits) - 1
    let value = this.byte() & most
    if (value < most) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.byte()
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw malformed
  }

  private text(): string {
    if (this.offset >= this.end) throw malformed
    const isHuffman = this.bytes[this.offset]! >= 0x80
    const length = this.integer(7)
    const start = this.offset
    const end = start + length
    if (end > this.end) throw malformed
    this.offset = end
    if (!isHuffman) return this.bytes.toString('latin1', start, end)
    const text = decodeHuffman(this.bytes, start, end)
    if (text === null) throw malformed
    return text
  }
}

/** Tells the peer that the dynamic table is not used; due after its setting of the table's size (RFC 7541 4.2). */
export const noTable = Buffer.of(0x20)

/** Encodes a list. Names are lower case; names and values are ASCII of at most 126 bytes. */
export function encodeHeaders(fields: Readonly<Record<string, string>>): Buffer {
  const parts: Buffer[] = []
  for (const [name, value] of Object.entries(fields)) {
    // A literal that is not added to the table.
    parts.push(Buffer.of(0, name.length), Buffer.from(name, 'latin1'))
    parts.push(Buffer.of(value.length), Buffer.from(value, 'latin1'))
  }
  return Buffer.concat(parts)
}
