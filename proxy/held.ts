/** A body as its pieces come, and what it takes of the node's budget until its request is over. */
import type { Budget } from './admission.ts'

export class Held {
  /** Bytes of the pieces that were not taken yet. */
  length = 0
  private pieces: Buffer[] = []
  private counted = 0
  private readonly budget: Budget

  constructor(budget: Budget) {
    this.budget = budget
  }

  add(piece: Buffer): void {
    this.pieces.push(piece)
    this.length += piece.length
    this.count(piece.length)
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
