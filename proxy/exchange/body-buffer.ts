/** A body as its pieces come, and what it takes of the node's budget until its request is over. */
import type { Budget } from '../admission.ts'

/**
 * Does some work with `bytes` of the budget taken until it is done, whoever waits for it. Null: with them more than
 * `most` would be held, and nothing is done.
 */
export function withRoom<T>(
  budget: Budget,
  bytes: number,
  most: number,
  work: () => Promise<T>,
): Promise<T> | null {
  if (budget.bytes + bytes > most) return null
  budget.bytes += bytes
  return work().finally(() => {
    budget.bytes -= bytes
  })
}

/** From so many pieces on, small ones are packed together: a buffer a byte takes a hundred times its size. */
const manyPieces = 16
const smallPiece = 1024
const blockLength = 16 * 1024

export class Held {
  /** Bytes of the pieces that were not taken yet. */
  length = 0
  private pieces: Buffer[] = []
  /** Small pieces, `used` bytes of them, that belong behind `pieces`. */
  private block: Buffer | null = null
  private used = 0
  private counted = 0
  private readonly budget: Budget

  constructor(budget: Budget) {
    this.budget = budget
  }

  add(piece: Buffer): void {
    if (this.pieces.length >= manyPieces && piece.length <= smallPiece) this.pack(piece)
    else {
      if (this.used > 0) this.unpack()
      this.pieces.push(piece)
    }
    this.length += piece.length
    this.count(piece.length)
  }

  private pack(piece: Buffer): void {
    if (this.used + piece.length > blockLength) this.unpack()
    this.block ??= Buffer.allocUnsafeSlow(blockLength)
    this.used += piece.copy(this.block, this.used)
  }

  private unpack(): void {
    this.pieces.push(this.block!.subarray(0, this.used))
    this.block = null
    this.used = 0
  }

  /** Bytes that are held elsewhere until the request is over. */
  count(bytes: number): void {
    this.counted += bytes
    this.budget.bytes += bytes
  }

  /** What has come so far, in one piece. */
  whole(): Buffer {
    const { length } = this
    const pieces = this.each()
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length)
  }

  /** The same as it came. */
  each(): Buffer[] {
    if (this.used > 0) this.unpack()
    const { pieces } = this
    this.pieces = []
    this.length = 0
    return pieces
  }

  /** The request is over: the budget has its bytes back. */
  release(): void {
    this.budget.bytes -= this.counted
    this.counted = 0
  }
}
