/** Frames of HTTP/2 (RFC 9113, sections 4 and 6). */

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const flags = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const

export const errors = {
  none: 0,
  protocol: 1,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const

export const settings = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

export const headLength = 9
/** Bytes of a frame's payload: the default of SETTINGS_MAX_FRAME_SIZE, which is not raised. */
export const maxPayload = 16_384
/** Windows of flow control before a setting or an update, and their limit. */
export const initialWindow = 65_535
export const maxWindow = 2 ** 31 - 1

/** The frame at hand. The payload is `bytes` from `start` to `end`. */
export class FrameReader {
  type = 0
  flags = 0
  stream = 0
  bytes: Buffer = Buffer.alloc(0)
  start = 0
  end = 0
  /** `bytes` is written again by the next frame. */
  isTransient = false
  private chunk: Buffer = this.bytes
  private offset = 0
  /** A frame that did not arrive in one chunk. */
  private partial: Buffer | null = null
  private held = 0
  private needed = headLength

  /** Call `next` until it returns another value than `frame`. */
  push(chunk: Buffer): void {
    this.chunk = chunk
    this.offset = 0
  }

  next(): 'frame' | 'more' | 'too_large' {
    const { chunk, offset } = this
    if (this.held === 0 && chunk.length - offset >= headLength) {
      const length = chunk.readUIntBE(offset, 3)
      if (length > maxPayload) return 'too_large'
      if (chunk.length - offset >= headLength + length) {
        this.offset = offset + headLength + length
        return this.found(chunk, offset, length, false)
      }
    }
    return this.collect()
  }

  /** Copies the bytes of a frame that is not whole in this chunk. */
  private collect(): 'frame' | 'more' | 'too_large' {
    this.partial ??= Buffer.allocUnsafe(headLength + maxPayload)
    const { chunk, partial } = this
    while (this.held < this.needed) {
      const taken = Math.min(this.needed - this.held, chunk.length - this.offset)
      if (taken === 0) return 'more'
      chunk.copy(partial, this.held, this.offset, this.offset + taken)
      this.offset += taken
      this.held += taken
      if (this.held !== headLength) continue
      const length = partial.readUIntBE(0, 3)
      if (length > maxPayload) return 'too_large'
      this.needed = headLength + length
    }
    const length = this.needed - headLength
    this.held = 0
    this.needed = headLength
    return this.found(partial, 0, length, true)
  }

  private found(bytes: Buffer, start: number, length: number, isTransient: boolean): 'frame' {
    this.type = bytes[start + 3]!
    this.flags = bytes[start + 4]!
    this.stream = bytes.readUInt32BE(start + 5) & maxWindow
    this.bytes = bytes
    this.start = start + headLength
    this.end = this.start + length
    this.isTransient = isTransient
    return 'frame'
  }

  has(flag: number): boolean {
    return (this.flags & flag) !== 0
  }

  get length(): number {
    return this.end - this.start
  }
}

/** Writes the head of a frame; where its payload begins. */
export function writeHead(
  out: Buffer,
  start: number,
  length: number,
  type: number,
  flag: number,
  stream: number,
): number {
  out.writeUIntBE(length, start, 3)
  out[start + 3] = type
  out[start + 4] = flag
  out.writeUInt32BE(stream, start + 5)
  return start + headLength
}

export function frameOf(type: number, flag: number, stream: number, payload: Buffer): Buffer {
  const out = Buffer.allocUnsafe(headLength + payload.length)
  payload.copy(out, writeHead(out, 0, payload.length, type, flag, stream))
  return out
}

/** A frame whose payload is one number of four bytes: RST_STREAM, WINDOW_UPDATE. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(value)
  return frameOf(type, 0, stream, payload)
}

export function goAwayFrame(lastStream: number, code: number): Buffer {
  const payload = Buffer.allocUnsafe(8)
  payload.writeUInt32BE(lastStream)
  payload.writeUInt32BE(code, 4)
  return frameOf(frameTypes.goAway, 0, 0, payload)
}

export function settingsFrame(values: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(values.length * 6)
  for (const [index, [id, value]] of values.entries()) {
    payload.writeUInt16BE(id, index * 6)
    payload.writeUInt32BE(value, index * 6 + 2)
  }
  return frameOf(frameTypes.settings, 0, 0, payload)
}
