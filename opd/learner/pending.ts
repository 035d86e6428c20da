/**
 * Exposures whose window has not passed: a ring of fixed rooms, oldest first. At any rate it takes no more than its
 * rooms; when they are all taken the oldest settles early.
 */
import type { Exposure } from './features.ts'

export class Pending {
  private readonly rooms: (Exposure | null)[]
  private head = 0
  private size = 0
  /** Settled early because the ring was full. */
  early = 0
  private readonly settle: (exposure: Exposure) => void
  private readonly bySequence = new Map<number, number>()

  constructor(capacity: number, settle: (exposure: Exposure) => void) {
    this.rooms = new Array<Exposure | null>(capacity).fill(null)
    this.settle = settle
  }

  get length(): number {
    return this.size
  }

  add(exposure: Exposure): void {
    if (this.size === this.rooms.length) {
      this.early++
      this.shift()
    }
    const room = (this.head + this.size) % this.rooms.length
    this.rooms[room] = exposure
    this.bySequence.set(exposure.sequence, room)
    this.size++
  }

  /** Takes one out before its time; null when it has settled, or never was here. */
  take(sequence: number): Exposure | null {
    const room = this.bySequence.get(sequence)
    if (room === undefined) return null
    const exposure = this.rooms[room]!
    this.rooms[room] = null
    this.bySequence.delete(sequence)
    return exposure
  }

  /** Settles what is older than `before`. */
  advance(before: number): void {
    while (this.size > 0) {
      const oldest = this.rooms[this.head]!
      if (oldest !== null && oldest.at > before) return
      this.shift()
    }
  }

  private shift(): void {
    const oldest = this.rooms[this.head]!
    this.rooms[this.head] = null
    this.head = (this.head + 1) % this.rooms.length
    this.size--
    if (oldest === null) return
    this.bySequence.delete(oldest.sequence)
    this.settle(oldest)
  }
}
