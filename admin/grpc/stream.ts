/** One request of a connection: its body, and what remains to be sent of its response. */
import type { RequestHead } from './request-head.ts'

/** Bytes of bodies of requests that were not answered, and of responses that wait for the windows of their callers, of all connections. */
export class BodyMemory {
  private held = 0
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** False: there is no room for so many bytes. */
  takeBytes(bytes: number): boolean {
    if (this.held + bytes > this.most) return false
    this.held += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.held -= bytes
  }
}

const smallestBody = 4096

/** What remains of a response. */
interface Rest {
  messages: Buffer[]
  /** Bytes of the first message that were sent. */
  sent: number
  /** The encoded trailers; null: more messages may follow. */
  trailers: Buffer | null
}

export class Http2Stream {
  readonly id: number
  readonly head: RequestHead
  /** Milliseconds of `performance.now()`. */
  readonly opened: number
  /** Bytes that may be sent to the peer. */
  sendWindow: number
  /** Bytes that were read, and for which no WINDOW_UPDATE was sent yet. */
  consumed = 0
  /** The peer has sent its request whole. */
  isComplete = false
  /** The response has begun. */
  isAnswered = false
  /** The response has no end of its own, so the age of the stream is no fault. */
  isLasting = false
  /** Called when the stream ends before its response did. */
  onCancel: (() => void) | null = null
  rest: Rest | null = null
  private body: Buffer | null = null
  private length = 0
  /** Bytes of the response that were taken from the memory. */
  private heldResponse = 0
  private readonly memory: BodyMemory

  /** `opened`: when its first bytes arrived, in milliseconds of `performance.now()`. */
  constructor(
    id: number,
    head: RequestHead,
    sendWindow: number,
    memory: BodyMemory,
    opened: number,
  ) {
    this.id = id
    this.head = head
    this.sendWindow = sendWindow
    this.memory = memory
    this.opened = opened
  }

  get received(): number {
    return this.length
  }

  /** Of the body; -1: it is empty. */
  get firstByte(): number {
    return this.length === 0 ? -1 : this.body![0]!
  }

  /** Adds bytes, which may be overwritten afterwards. False: there is no memory for them. */
  addBytes(bytes: Buffer, start: number, end: number): boolean {
    if (start === end) return true
    const length = this.length + end - start
    const capacity = this.body?.length ?? 0
    if (length > capacity) {
      const grown = Math.max(smallestBody, length, 2 * capacity)
      if (!this.memory.takeBytes(grown - capacity)) return false
      const body = Buffer.allocUnsafe(grown)
      this.body?.copy(body, 0, 0, this.length)
      this.body = body
    }
    bytes.copy(this.body!, this.length, start, end)
    this.length = length
    return true
  }

  /** Its memory is given back when the stream ends. */
  get bytes(): Buffer {
    return this.body?.subarray(0, this.length) ?? Buffer.alloc(0)
  }

  dropBody(): void {
    this.memory.giveBack(this.body?.length ?? 0)
    this.body = null
    this.length = 0
  }

  /** Takes memory for so many bytes of the response. False: there is none. */
  holdResponse(bytes: number): boolean {
    if (!this.memory.takeBytes(bytes)) return false
    this.heldResponse += bytes
    return true
  }

  /** Gives its memory back. */
  drop(): void {
    this.dropBody()
    this.memory.giveBack(this.heldResponse)
    this.heldResponse = 0
    this.rest = null
  }
}
