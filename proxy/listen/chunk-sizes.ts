/**
 * The sizes of chunks on a connection of the general lane. node:http reports a chunk when its data arrive: a caller that announces
 * more than the limit and sends nothing would be waited for. The bytes are read here too, before node:http parses them.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { newestResponse } from '../../opd/base/pipelining.ts'
import { ChunkedReader } from '../wire/chunked.ts'

const chunkTooLarge = Symbol('chunk too large')
const requestsTooLarge = new WeakSet<IncomingMessage>()

/**
 * Calls `refuse` when the size of a chunk is known to exceed the limit; a pipelined request may wait longer than that.
 *
 * @param request a request with chunks
 * @param refuse called at most once, at once if the size is known already
 */
export function onChunkTooLarge(request: IncomingMessage, refuse: () => void): void {
  if (requestsTooLarge.has(request)) refuse()
  else request.once(chunkTooLarge, refuse)
}

const blankLine = '\r\n\r\n'
/** Behind such a head, the bytes are not requests. */
const leavesHttp = /^CONNECT |\r\nupgrade:/i
const chunkedCoding = /\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n/i
const contentLength = /\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n/i
const ignored = { bodyBytes() {} }

/** `limit`: bytes of one chunk, asked at each request. `maxHead`: bytes of a head that node:http accepts. */
export function watchChunkSizes(socket: Socket, limit: () => number, maxHead: number): void {
  new ChunkSizes(socket, limit, maxHead).start()
}

class ChunkSizes {
  private readonly socket: Socket
  private readonly limit: () => number
  private readonly maxHead: number
  /** The part of a head that has arrived. */
  private head = ''
  /** Bytes of a body with a length that have not arrived. */
  private missing = 0
  private chunks: ChunkedReader | null = null

  constructor(socket: Socket, limit: () => number, maxHead: number) {
    this.socket = socket
    this.limit = limit
    this.maxHead = maxHead
  }

  start(): void {
    this.socket.prependListener('data', this.onData)
  }

  private readonly onData = (bytes: Buffer): void => {
    let position = 0
    while (position >= 0 && position < bytes.length) position = this.readFrom(bytes, position)
    if (position < 0) this.socket.off('data', this.onData)
  }

  /** Returns the position after what was read, or -1: node:http alone checks the rest. */
  private readFrom(bytes: Buffer, position: number): number {
    if (this.chunks !== null) return this.readChunks(this.chunks, bytes, position)
    const skipped = Math.min(this.missing, bytes.length - position)
    this.missing -= skipped
    return skipped > 0 ? position + skipped : this.readHead(bytes, position)
  }

  private readHead(bytes: Buffer, position: number): number {
    const before = this.head.length
    this.head += bytes.toString('latin1', position)
    const end = this.head.indexOf(blankLine)
    if (end < 0) return this.head.length > this.maxHead ? -1 : bytes.length
    const head = this.head.slice(0, end + 2)
    this.head = ''
    if (leavesHttp.test(head)) return -1
    if (chunkedCoding.test(head)) this.chunks = new ChunkedReader(this.limit())
    else this.missing = Number(contentLength.exec(head)?.[1] ?? 0)
    return position + end + blankLine.length - before
  }

  private readChunks(chunks: ChunkedReader, bytes: Buffer, position: number): number {
    const known = chunks.tooLarge
    // The reader joins the chunks in place, and node:http parses these bytes after it.
    const end = chunks.read(Buffer.from(bytes.subarray(position)), 0, ignored)
    if (end < 0) return -1
    if (chunks.done) this.chunks = null
    // With its end in the same bytes, the data have arrived.
    else if (chunks.tooLarge && !known) process.nextTick(this.report)
    return position + end
  }

  private readonly report = (): void => {
    const request = newestResponse(this.socket)?.req
    if (request === undefined) return
    requestsTooLarge.add(request)
    request.emit(chunkTooLarge)
  }
}
