/**
 * One connection of HTTP/2 (RFC 9113), as a server. It gives each request to its handler when the body is whole. Everything
 * that a peer can make grow is bounded; a peer that breaks a rule of the connection gets GOAWAY.
 *
 * Why not `node:http2`: its objects of a stream survive young collections, whatever the program does, so each second of calls
 * leaves megabytes to collections that stop the event loop for tens of milliseconds.
 */
import type { Socket } from 'node:net'
import type { LoopTurn } from '../../opd/base/loop-turn.ts'
import { TokenBucket } from '../../opd/base/token-bucket.ts'
import {
  errors,
  FrameReader,
  flags,
  frameOf,
  frameTypes,
  goAwayFrame,
  headLength,
  initialWindow,
  maxPayload,
  maxWindow,
  numberFrame,
  settings,
  settingsFrame,
  writeHead,
} from './frames.ts'
import { HeaderDecoder, noTable } from './hpack.ts'
import { maxHeaderList, RequestHead } from './request-head.ts'
import { type BodyMemory, Http2Stream } from './stream.ts'

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/**
 * Bytes that a peer may send on a stream, and on the connection, before a WINDOW_UPDATE permits more. It is sent as soon as
 * they are read: `maxBody` and the memory of bodies bound what is kept.
 */
const streamWindow = 256 * 1024
const connectionWindow = 1024 * 1024
/** Bytes of a header list as it is sent, and its frames. */
const maxHeaderBlock = 32 * 1024
const maxContinuations = 32
/** Values of one SETTINGS frame. There are seven settings. */
const maxSettings = 32
/** Bytes that the peer has not read. A peer that reads so little is disconnected. */
const maxUnread = 4 * 1024 * 1024
/** Milliseconds in which a request is sent, answered, and its answer is read. */
const maxStreamAge = 15_000
/** Milliseconds in which a new connection sends its preface and settings. */
const maxPrefaceAge = 5000
/** Milliseconds in which a peer closes a connection that has ended, and bytes that it may send meanwhile: they are read in vain. */
const maxEnd = 1000
const maxDiscarded = 256 * 1024
/**
 * Faults, cancelled streams (CVE-2023-44487), and frames without content beyond `sparePerRequest` (CVE-2019-9512, 9515, 9518),
 * in a burst and a second.
 */
const resetBurst = 1000
const resetRate = 200
/** Frames but HEADERS, CONTINUATION and DATA, and empty DATA, that each request brings along without a token. */
const sparePerRequest = 100
const drainPing = Buffer.from('draining')

export interface Http2Handler {
  /** The head of a request has arrived: it may be answered before its body. */
  onHead(stream: Http2Stream): void
  /** A request is whole. */
  onRequest(stream: Http2Stream): void
  /** The body of a request has more than `maxBody` bytes, or there is no memory for it. */
  onTooLarge(stream: Http2Stream): void
  onClosed(connection: Http2Connection): void
}

export interface Http2Limits {
  maxStreams: number
  /** Bytes of one body. */
  maxBody: number
  /** Of all connections. */
  memory: BodyMemory
  turn: LoopTurn
}

/** A response; absent parts do not end it. */
export interface Response {
  /** Encoded header fields. */
  head: Buffer
  message?: Buffer
  trailers?: Buffer
}

export class Http2Connection {
  private readonly socket: Socket
  private readonly handler: Http2Handler
  private readonly limits: Http2Limits
  private readonly reader = new FrameReader()
  private readonly decoder = new HeaderDecoder()
  private readonly streams = new Map<number, Http2Stream>()
  /** Streams that were reset here: the peer may have sent frames before it knew. */
  private readonly reset = new Set<number>()
  private readonly resets: TokenBucket
  private readonly opened = performance.now()
  private prefaceRead = 0
  private hasSettings = false
  private lastStream = 0
  private sendWindow = initialWindow
  private consumed = 0
  /** Of new streams. */
  private streamSendWindow = initialWindow
  private tableIsDue = false
  /** A header list whose end has not arrived. */
  private block: { stream: number; parts: Buffer[]; length: number; isEnd: boolean } | null = null
  private out: Buffer[] = []
  private isReceiving = false
  /** Frames of this connection wait for a later turn of the event loop. */
  private isWaiting = false
  /** Since when the peer does not read what was sent; Infinity: it reads. Meanwhile nothing of it is read. */
  private blockedSince = Number.POSITIVE_INFINITY
  /** When the chunk at hand arrived. What is read after a pause arrived when the pause began, at the earliest. */
  private arrived = 0
  private pausedSince = Number.POSITIVE_INFINITY
  /** Frames without content since the last request was whole. */
  private spared = 0
  /** The last stream that a GOAWAY frame named: a later one may not name more (RFC 9113 6.8). */
  private lastNamed = maxWindow
  private drainsSince: number | null = null
  /** No further request is accepted. */
  private isClosing = false
  private isEnded = false
  private endedSince = Number.POSITIVE_INFINITY
  private discarded = 0

  constructor(socket: Socket, handler: Http2Handler, limits: Http2Limits) {
    this.socket = socket
    this.handler = handler
    this.limits = limits
    this.resets = new TokenBucket(resetBurst, resetRate, this.opened)
    socket.on('data', (chunk: Buffer) => this.receive(chunk))
    socket.on('drain', () => {
      this.blockedSince = Number.POSITIVE_INFINITY
      this.resume()
    })
    socket.once('close', () => this.closed())
    this.send(
      settingsFrame([
        [settings.maxConcurrentStreams, limits.maxStreams],
        [settings.initialWindowSize, streamWindow],
        [settings.maxHeaderListSize, maxHeaderList],
      ]),
    )
    this.send(numberFrame(frameTypes.windowUpdate, 0, connectionWindow - initialWindow))
  }

  /** Sends a response, or its beginning. What flow control does not permit yet follows later. */
  respond(stream: Http2Stream, { head, message, trailers }: Response): void {
    if (!this.has(stream)) return
    stream.isAnswered = true
    const block = this.tableIsDue ? Buffer.concat([noTable, head]) : head
    this.tableIsDue = false
    const isOnly = message === undefined && trailers === undefined && !stream.isLasting
    const length = message?.length ?? 0
    const fits = length <= Math.min(maxPayload, stream.sendWindow, this.sendWindow)
    if (message !== undefined && trailers !== undefined && fits) {
      this.send(wholeResponse(stream.id, block, message, trailers))
      stream.sendWindow -= length
      this.sendWindow -= length
      return this.finish(stream)
    }
    const flag = flags.endHeaders | (isOnly ? flags.endStream : 0)
    this.send(frameOf(frameTypes.headers, flag, stream.id, block))
    if (isOnly) return this.finish(stream)
    if (!stream.holdResponse(length)) return this.resetStream(stream.id, errors.enhanceYourCalm)
    stream.rest = { messages: [], sent: 0, trailers: null }
    this.append(stream, message, trailers)
  }

  /** Adds to a response that has begun. */
  append(stream: Http2Stream, message?: Buffer, trailers?: Buffer): void {
    if (stream.rest === null || !this.has(stream)) return
    if (message !== undefined) stream.rest.messages.push(message)
    if (trailers !== undefined) stream.rest.trailers = trailers
    this.pump(stream)
  }

  /**
   * Tells the peer to open no further request here. Requests that it sent before it knew are answered. When the last one is,
   * the connection ends.
   */
  drain(): void {
    if (this.drainsSince !== null || this.isEnded) return
    this.drainsSince = performance.now()
    // A peer that answers the ping has read the frame before it (RFC 9113 6.8).
    this.send(goAwayFrame(maxWindow, errors.none))
    this.send(frameOf(frameTypes.ping, 0, 0, drainPing))
  }

  /** Ends what takes too long. Call it about once a second. `maxAge`: of a connection, in milliseconds. */
  sweep(now: number, maxAge: number): void {
    const isSilent = !this.hasSettings && now - this.opened > maxPrefaceAge
    const readsNothing = now - this.blockedSince > maxStreamAge
    if (isSilent || readsNothing || now - this.endedSince > maxEnd) return this.destroy()
    if (now - this.opened > maxAge) this.drain()
    if (this.drainsSince !== null && now - this.drainsSince > 1000) this.close()
    for (const stream of this.streams.values())
      if (!stream.isLasting && now - stream.opened > maxStreamAge)
        this.resetStream(stream.id, errors.cancel)
  }

  destroy(): void {
    this.isEnded = true
    this.socket.destroy()
  }

  private closed(): void {
    this.isEnded = true
    for (const stream of this.streams.values()) this.forget(stream)
    this.handler.onClosed(this)
  }

  private receive(chunk: Buffer): void {
    if (this.isEnded) {
      this.discarded += chunk.length
      if (this.discarded > maxDiscarded) this.destroy()
      return
    }
    this.arrived = Math.min(performance.now(), this.pausedSince)
    this.reader.push(this.prefaceRead < preface.length ? this.readPreface(chunk) : chunk)
    this.process()
  }

  /** Processes the frames of the chunk. What the turn of the event loop has no time for is processed in a later one. */
  private readonly process = (): void => {
    const { reader, limits } = this
    this.isReceiving = true
    this.isWaiting = limits.turn.isSpent
    while (!this.isEnded && !this.isWaiting) {
      const next = reader.next()
      if (next === 'more') break
      if (next === 'too_large') this.fail(errors.frameSize)
      else this.frame()
      this.isWaiting = limits.turn.isSpent
    }
    this.isReceiving = false
    this.flush()
    if (!this.isWaiting || this.isEnded) return this.resume()
    this.pause()
    limits.turn.wait(this.process)
  }

  private pause(): void {
    this.pausedSince = Math.min(this.pausedSince, performance.now())
    this.socket.pause()
  }

  /** Reads from the peer, unless its frames wait, or it does not read. An ended connection is read: see `end`. */
  private resume(): void {
    const { socket, isWaiting, isEnded } = this
    const isBlocked = this.blockedSince !== Number.POSITIVE_INFINITY
    if (!socket.isPaused() || (!isEnded && (isWaiting || isBlocked))) return
    socket.resume()
    setImmediate(() => {
      if (!socket.isPaused()) this.pausedSince = Number.POSITIVE_INFINITY
    })
  }

  /** The bytes after the preface. */
  private readPreface(chunk: Buffer): Buffer {
    const length = Math.min(chunk.length, preface.length - this.prefaceRead)
    const expected = preface.subarray(this.prefaceRead, this.prefaceRead + length)
    if (!chunk.subarray(0, length).equals(expected)) this.fail(errors.protocol)
    this.prefaceRead += length
    return chunk.subarray(length)
  }

  private frame(): void {
    const { reader, block } = this
    const { type } = reader
    const isFirst = type === frameTypes.settings && !reader.has(flags.ack)
    if (!this.hasSettings && !isFirst) return this.fail(errors.protocol)
    const continues = type === frameTypes.continuation && block?.stream === reader.stream
    if (block !== null && !continues) return this.fail(errors.protocol)
    if (this.isSpare() && ++this.spared > sparePerRequest && !this.takesFault()) return
    switch (type) {
      case frameTypes.data:
        return this.data()
      case frameTypes.headers:
        return this.headers()
      case frameTypes.continuation:
        return block === null ? this.fail(errors.protocol) : this.continuation()
      case frameTypes.priority:
        return this.priority()
      case frameTypes.resetStream:
        return this.streamReset()
      case frameTypes.settings:
        return this.settings()
      case frameTypes.pushPromise:
        return this.fail(errors.protocol)
      case frameTypes.ping:
        return this.ping()
      case frameTypes.goAway:
        return this.goAway()
      case frameTypes.windowUpdate:
        return this.windowUpdate()
    }
  }

  /** Whether the frame has no content: a peer that sends many of them keeps the processor busy for nothing. */
  private isSpare(): boolean {
    const { reader } = this
    const { type } = reader
    if (type === frameTypes.data) return reader.length === 0 && !reader.has(flags.endStream)
    return type !== frameTypes.headers && type !== frameTypes.continuation
  }

  /** Counts a fault. False: there were too many, and the connection has ended. */
  private takesFault(): boolean {
    if (this.resets.takeToken(performance.now())) return true
    this.fail(errors.enhanceYourCalm)
    return false
  }

  private data(): void {
    const { reader, streams } = this
    const { stream: id, length, bytes } = reader
    if (id === 0 || id > this.lastStream) return this.fail(errors.protocol)
    let { start, end } = reader
    if (reader.has(flags.padded)) {
      if (length === 0 || bytes[start]! >= length) return this.fail(errors.protocol)
      end -= bytes[start]!
      start++
    }
    this.consume(length)
    const stream = streams.get(id)
    if (stream === undefined) {
      if (!this.reset.has(id)) this.resetStream(id, errors.streamClosed)
      return
    }
    if (stream.isComplete) return this.resetStream(id, errors.streamClosed)
    const isEnd = reader.has(flags.endStream)
    if (stream.isAnswered) return isEnd ? this.complete(stream) : undefined
    const isTooLarge = stream.received + end - start > this.limits.maxBody
    if (isTooLarge || !stream.addBytes(bytes, start, end)) {
      stream.isComplete = isEnd
      stream.dropBody()
      return this.handler.onTooLarge(stream)
    }
    if (isEnd) return this.complete(stream)
    stream.consumed += length
    if (stream.consumed < streamWindow / 2) return
    this.send(numberFrame(frameTypes.windowUpdate, id, stream.consumed))
    stream.consumed = 0
  }

  /** The peer may send so many bytes again. */
  private consume(bytes: number): void {
    this.consumed += bytes
    if (this.consumed < connectionWindow / 2) return
    this.send(numberFrame(frameTypes.windowUpdate, 0, this.consumed))
    this.consumed = 0
  }

  private headers(): void {
    const { reader } = this
    const { stream: id, length, bytes } = reader
    if (id % 2 === 0) return this.fail(errors.protocol)
    let { start, end } = reader
    if (reader.has(flags.padded)) {
      if (length === 0 || bytes[start]! >= length) return this.fail(errors.protocol)
      end -= bytes[start]!
      start++
    }
    let dependsOnItself = false
    if (reader.has(flags.priority)) {
      if (end - start < 5) return this.fail(errors.frameSize)
      dependsOnItself = (bytes.readUInt32BE(start) & maxWindow) === id
      start += 5
    }
    const stream = this.streams.get(id)
    const isKnown = stream !== undefined || this.reset.has(id)
    if (!isKnown && id <= this.lastStream) return this.fail(errors.streamClosed)
    if (stream?.isComplete) return this.fail(errors.streamClosed)
    const isEnd = reader.has(flags.endStream)
    if (reader.has(flags.endHeaders)) this.headerList(id, bytes, start, end, isEnd)
    else {
      const part = Buffer.from(bytes.subarray(start, end))
      this.block = { stream: id, parts: [part], length: part.length, isEnd }
    }
    if (dependsOnItself) this.resetStream(id, errors.protocol)
  }

  private continuation(): void {
    const { reader } = this
    const block = this.block!
    const { bytes, start, end } = reader
    block.parts.push(Buffer.from(bytes.subarray(start, end)))
    block.length += end - start
    if (block.length > maxHeaderBlock || block.parts.length > maxContinuations)
      return this.fail(errors.enhanceYourCalm)
    if (!reader.has(flags.endHeaders)) return
    this.block = null
    this.headerList(block.stream, Buffer.concat(block.parts), 0, block.length, block.isEnd)
  }

  private headerList(id: number, bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    const stream = this.streams.get(id)
    const head = new RequestHead(stream !== undefined)
    // It is decoded in any case: later lists refer to it.
    if (!this.decoder.decode(bytes, start, end, head.add)) return this.fail(errors.compression)
    head.complete()
    if (stream !== undefined) {
      if (head.isMalformed || !isEnd) this.resetStream(id, errors.protocol)
      else this.complete(stream)
      return
    }
    if (this.reset.has(id)) return
    this.lastStream = id
    // GOAWAY lets the peer open it elsewhere.
    if (this.isClosing) return this.resetStream(id, errors.refusedStream)
    if (this.streams.size >= this.limits.maxStreams)
      return this.resetStream(id, errors.refusedStream)
    if (head.isMalformed) return this.resetStream(id, errors.protocol)
    const { memory } = this.limits
    const opened = new Http2Stream(id, head, this.streamSendWindow, memory, this.arrived)
    this.streams.set(id, opened)
    opened.isComplete = isEnd
    this.handler.onHead(opened)
    if (isEnd) this.complete(opened)
  }

  /** The peer has sent its request whole. */
  private complete(stream: Http2Stream): void {
    stream.isComplete = true
    this.spared = 0
    if (stream.isAnswered) return
    const { contentLength } = stream.head
    if (contentLength !== null && contentLength !== stream.received)
      return this.resetStream(stream.id, errors.protocol)
    this.handler.onRequest(stream)
  }

  private priority(): void {
    const { stream: id, length, bytes, start } = this.reader
    if (id === 0) return this.fail(errors.protocol)
    if (length !== 5) return this.resetStream(id, errors.frameSize)
    if ((bytes.readUInt32BE(start) & maxWindow) === id) this.resetStream(id, errors.protocol)
  }

  private streamReset(): void {
    const { stream: id, length } = this.reader
    if (length !== 4) return this.fail(errors.frameSize)
    if (id === 0 || id > this.lastStream) return this.fail(errors.protocol)
    const stream = this.streams.get(id)
    if (stream === undefined) return
    this.forget(stream)
    this.takesFault()
  }

  private settings(): void {
    const { reader } = this
    const { length, bytes, start, end } = reader
    if (reader.stream !== 0) return this.fail(errors.protocol)
    this.hasSettings = true
    if (reader.has(flags.ack)) return length === 0 ? undefined : this.fail(errors.frameSize)
    if (length % 6 !== 0) return this.fail(errors.frameSize)
    if (length > 6 * maxSettings) return this.fail(errors.enhanceYourCalm)
    for (let index = start; index < end; index += 6) {
      const fault = this.setting(bytes.readUInt16BE(index), bytes.readUInt32BE(index + 2))
      if (fault !== errors.none) return this.fail(fault)
    }
    this.send(frameOf(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
    this.pumpAll()
  }

  /** The fault of a setting. */
  private setting(id: number, value: number): number {
    if (id === settings.headerTableSize) this.tableIsDue = true
    if (id === settings.enablePush && value > 1) return errors.protocol
    if (id === settings.maxFrameSize && (value < maxPayload || value > 2 ** 24 - 1))
      return errors.protocol
    if (id !== settings.initialWindowSize) return errors.none
    if (value > maxWindow) return errors.flowControl
    for (const stream of this.streams.values()) {
      stream.sendWindow += value - this.streamSendWindow
      if (stream.sendWindow > maxWindow) return errors.flowControl
    }
    this.streamSendWindow = value
    return errors.none
  }

  private ping(): void {
    const { reader } = this
    const { stream, length, bytes, start, end } = reader
    if (stream !== 0) return this.fail(errors.protocol)
    if (length !== 8) return this.fail(errors.frameSize)
    const payload = bytes.subarray(start, end)
    if (!reader.has(flags.ack)) this.send(frameOf(frameTypes.ping, flags.ack, 0, payload))
    else if (this.drainsSince !== null && payload.equals(drainPing)) this.close()
  }

  /** The peer opens no further request. */
  private goAway(): void {
    const { stream, length } = this.reader
    if (stream !== 0) return this.fail(errors.protocol)
    if (length < 8) return this.fail(errors.frameSize)
    this.close()
  }

  private windowUpdate(): void {
    const { stream: id, length, bytes, start } = this.reader
    if (length !== 4) return this.fail(errors.frameSize)
    const increment = bytes.readUInt32BE(start) & maxWindow
    if (id > this.lastStream) return this.fail(errors.protocol)
    if (id === 0) {
      this.sendWindow += increment
      if (increment === 0) return this.fail(errors.protocol)
      if (this.sendWindow > maxWindow) return this.fail(errors.flowControl)
      return this.pumpAll()
    }
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.sendWindow += increment
    if (increment === 0) this.resetStream(id, errors.protocol)
    else if (stream.sendWindow > maxWindow) this.resetStream(id, errors.flowControl)
    else this.pump(stream)
  }

  private pumpAll(): void {
    for (const stream of this.streams.values()) this.pump(stream)
  }

  /** Sends what flow control permits of a response. */
  private pump(stream: Http2Stream): void {
    const { rest, id } = stream
    if (rest === null) return
    while (rest.messages.length > 0) {
      const message = rest.messages[0]!
      const windows = Math.min(stream.sendWindow, this.sendWindow, maxPayload)
      const length = Math.min(windows, message.length - rest.sent)
      if (length <= 0) return
      const part = message.subarray(rest.sent, rest.sent + length)
      this.send(frameOf(frameTypes.data, 0, id, part))
      stream.sendWindow -= length
      this.sendWindow -= length
      rest.sent += length
      if (rest.sent < message.length) continue
      rest.messages.shift()
      rest.sent = 0
    }
    if (rest.trailers === null) return
    this.send(frameOf(frameTypes.headers, flags.endHeaders | flags.endStream, id, rest.trailers))
    this.finish(stream)
  }

  /** The response was sent whole. */
  private finish(stream: Http2Stream): void {
    stream.onCancel = null
    if (stream.isComplete) this.forget(stream)
    else this.resetStream(stream.id, errors.none)
  }

  private resetStream(id: number, code: number): void {
    this.send(numberFrame(frameTypes.resetStream, id, code))
    const stream = this.streams.get(id)
    if (this.reset.size >= resetBurst) this.reset.clear()
    if (id <= this.lastStream) this.reset.add(id)
    if (stream !== undefined) this.forget(stream)
    this.takesFault()
  }

  private forget(stream: Http2Stream): void {
    this.streams.delete(stream.id)
    stream.drop()
    stream.onCancel?.()
    stream.onCancel = null
    if (this.isClosing && this.streams.size === 0) this.end()
  }

  /** Accepts no further request. */
  private close(): void {
    if (this.isClosing || this.isEnded) return
    this.isClosing = true
    this.lastNamed = this.lastStream
    this.send(goAwayFrame(this.lastNamed, errors.none))
    if (this.streams.size === 0) this.end()
  }

  /** The peer broke a rule of the connection. */
  private fail(code: number): void {
    if (this.isEnded) return
    this.send(goAwayFrame(Math.min(this.lastStream, this.lastNamed), code))
    this.end()
  }

  private end(): void {
    if (this.isEnded) return
    this.isReceiving = false
    this.flush()
    this.isEnded = true
    this.endedSince = performance.now()
    // What still arrives is read: bytes that nobody read would reset the connection before the peer has GOAWAY.
    this.socket.end()
    this.resume()
  }

  /** Whether the response of a stream can still be sent. */
  has(stream: Http2Stream): boolean {
    return this.streams.get(stream.id) === stream
  }

  /** Frames that are sent while a chunk is read are written at once. */
  private send(frame: Buffer): void {
    if (this.isEnded) return
    this.out.push(frame)
    if (!this.isReceiving) this.flush()
  }

  private flush(): void {
    const { out, socket } = this
    if (out.length === 0) return
    this.out = []
    if (!socket.writable) return
    if (socket.write(out.length === 1 ? out[0]! : Buffer.concat(out))) return
    if (socket.writableLength > maxUnread) return this.destroy()
    this.blockedSince = Math.min(this.blockedSince, performance.now())
    this.pause()
  }
}

/** HEADERS, DATA and the trailers, in one piece. */
function wholeResponse(id: number, head: Buffer, message: Buffer, trailers: Buffer): Buffer {
  const length = 3 * headLength + head.length + message.length + trailers.length
  const out = Buffer.allocUnsafe(length)
  let offset = writeHead(out, 0, head.length, frameTypes.headers, flags.endHeaders, id)
  offset += head.copy(out, offset)
  offset = writeHead(out, offset, message.length, frameTypes.data, 0, id)
  offset += message.copy(out, offset)
  const last = flags.endHeaders | flags.endStream
  offset = writeHead(out, offset, trailers.length, frameTypes.headers, last, id)
  trailers.copy(out, offset)
  return out
}
