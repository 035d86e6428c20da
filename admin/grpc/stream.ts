/** One request of a connection: its body, and what remains to be sent of its response. */
import type { RequestHead } from './request-head.ts'

/** Bytes of bodies that are not complete, of all connections. */
export class BodyMemory {
  private held = 0
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** False: there is no room for so many bytes. */
  take(bytes: number): boolean {
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
  /** Bytes that the peer was not yet told it may send again. */
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
  private readonly memory: BodyMemory

  constructor(id: number, head: RequestHead, sendWindow: number, memory: BodyMemory) {
    this.id = id
    this.head = head
    this.sendWindow = sendWindow
    this.memory = memory
    this.opened = performance.now()
  }

  get received(): number {
    return this.length
  }

  /** Adds bytes, which may be overwritten afterwards. False: there is no memory for them. */
  add(bytes: Buffer, start: number, end: number): boolean {
    if (start === end) return true
    const length = this.length + end - start
    const capacity = this.body?.length ?? 0
    if (length > capacity) {
      const grown = Math.max(smallestBody, length, 2 * capacity)
      if (!this.memory.take(grown - capacity)) return false
      const body = Buffer.allocUnsafe(grown)
      this.body?.copy(body, 0, 0, this.length)
      this.body = body
    }
    bytes.copy(this.body!, this.length, start, end)
    this.length = length
    return true
  }

  /** The body, which the stream no longer has. */
  takeBody(): Buffer {
    const body = this.body?.subarray(0, this.length) ?? Buffer.alloc(0)
    this.dropBody()
    return body
  }

  dropBody(): void {
    this.memory.giveBack(this.body?.length ?? 0)
    this.body = null
    this.length = 0
  }
}
