/** A body as its chunks arrive. Its bytes count towards the node's memory budget until the request ends. */
import type { Budget } from '../admission/overload.ts'

/**
 * Runs `work` with `bytes` of the budget reserved until it ends, even if its result is not used. Null: the reservation
 * would exceed `limit`, and `work` does not run.
 */
export function withReservation<T>(
  budget: Budget,
  bytes: number,
  limit: number,
  work: () => Promise<T>,
): Promise<T> | null {
  if (budget.bytes + bytes > limit) return null
  budget.bytes += bytes
  return work().finally(() => {
    budget.bytes -= bytes
  })
}

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
