/**
 * Exposures that wait to be trained with: slots of 51 bytes, chained into the buckets of a wheel by the time they are due.
 *
 *   wheel   [ now | +1 | +2 | … 65535 ]       a bucket is 1/65536 of the longest wait: 27 ms of 30 min
 *              │
 *              └▶ slot 7 ─▶ slot 2 ─▶ …       next slot of the bucket; free slots are a chain of their own
 *
 * A ticket (slot and generation) finds a slot again, so that a win takes its exposure out in one step. At any rate it
 * holds no more than its slots, under 64 MB: when they fill, one in 2, 4, 8 is kept, and counts as so many.
 */
import { writeTicket } from '../exposure.ts'
import { featureBytes, hasFeatures } from '../features.ts'

const slotBits = 21
const chunkBits = 14
const perChunk = 2 ** chunkBits
const buckets = 65_536
const none = -1
/** 58 bytes a slot. */
const slotsMost = 2 ** 20

/** Slots are allocated in chunks, so that a node with little traffic has one chunk. */
class Chunk {
  readonly bytes = new Uint8Array(perChunk * featureBytes)
  readonly next = new Int32Array(perChunk)
  readonly generation = new Uint16Array(perChunk)
  /** 0: free, or taken out while its bucket still names it. */
  readonly weight = new Uint8Array(perChunk)
}

/** When the exposure with a ticket is due, milliseconds. */
type Due = (ticket: number) => number

export class PendingExposures {
  /** Number of exposures that wait. */
  size = 0
  private readonly chunks: Chunk[] = []
  private readonly wheel = new Int32Array(buckets).fill(none)
  private free = none
  private slots = 0
  private readonly most: number
  private readonly width: number
  /** The bucket that is due next, counted from time 0; NaN before the first exposure. */
  private at = Number.NaN
  private counter = 0

  /** `longest`: milliseconds that an exposure waits at the most. */
  constructor(longest: number, most = slotsMost) {
    this.width = Math.max(1, longest / (buckets - 2))
    this.most = most
  }

  /** When what is handed out now was due, to a bucket. */
  get dueAt(): number {
    return this.at * this.width
  }

  /** How many exposures one that is kept now represents. */
  private weightNow(): number {
    const full = this.size / this.most
    if (full < 0.7) return 1
    return full < 0.85 ? 2 : full < 0.95 ? 4 : 8
  }

  /** Keeps bytes until `due`, with the ticket written into them; 0: this one is not kept, others count for it. */
  add(bytes: Uint8Array, now: number, due: Due): number {
    const weight = this.weightNow()
    this.counter = (this.counter + 1) >>> 0
    if (weight > 1 && (Math.imul(this.counter, 0x9e3779b1) >>> 0) % weight !== 0) return 0
    return this.place(bytes, now, due, weight)
  }

  place(bytes: Uint8Array, now: number, due: Due, weight: number): number {
    const slot = this.freeSlot()
    if (slot === none) return 0
    const chunk = this.chunks[slot >> chunkBits]!
    const at = slot & (perChunk - 1)
    const generation = (chunk.generation[at]! + 1) & 0x7ff
    const ticket = ((generation << slotBits) | (slot + 1)) >>> 0
    chunk.generation[at] = generation
    writeTicket(bytes, ticket)
    chunk.bytes.set(bytes, at * featureBytes)
    chunk.weight[at] = weight
    this.size++
    this.chain(slot, now, due(ticket))
    return ticket
  }

  private chain(slot: number, now: number, due: number): void {
    const nowBucket = Math.floor(now / this.width)
    // Nothing before, or a clock that was set back by more than the wheel is long.
    if (!(this.at >= 0) || nowBucket < this.at - buckets) this.at = nowBucket
    const wanted = Math.floor(due / this.width)
    // A clock that jumped: not before what is due next, not beyond the wheel.
    const bucket = Math.min(this.at + buckets - 1, Math.max(this.at, wanted)) % buckets
    this.chunks[slot >> chunkBits]!.next[slot & (perChunk - 1)] = this.wheel[bucket]!
    this.wheel[bucket] = slot
  }

  private freeSlot(): number {
    if (this.free === none) {
      if (this.slots >= this.most) return none
      const chunk = new Chunk()
      for (let n = perChunk - 1; n >= 0; n--) {
        chunk.next[n] = this.free
        this.free = this.slots + n
      }
      this.chunks.push(chunk)
      this.slots += perChunk
    }
    const slot = this.free
    this.free = this.chunks[slot >> chunkBits]!.next[slot & (perChunk - 1)]!
    return slot
  }

  /** Takes out the exposure of these bytes; its weight, or 0: it is not here (any more). */
  take(ticket: number, bytes: Uint8Array): number {
    const slot = (ticket & (2 ** slotBits - 1)) - 1
    const chunk = this.chunks[slot >> chunkBits]
    if (slot < 0 || chunk === undefined) return 0
    const at = slot & (perChunk - 1)
    const weight = chunk.weight[at]!
    if (chunk.generation[at] !== ticket >>> slotBits || weight === 0) return 0
    // Tickets of other nodes look alike: only the same exposure is taken.
    if (!hasFeatures(chunk.bytes, at * featureBytes, bytes)) return 0
    chunk.weight[at] = 0
    this.size--
    return weight
  }

  /**
   * Hands what is due to `settle`, `most` at a time, counted by weight, as it trains as often; false: there is more. `settle`
   * returns when it wants to see the exposure again; 0: never.
   */
  advance(
    now: number,
    most: number,
    settle: (bytes: Uint8Array, weight: number) => number,
  ): boolean {
    if (!(this.at >= 0)) return true
    const until = Math.floor(now / this.width)
    // A clock that jumped far ahead: every bucket once is enough.
    if (until - this.at > buckets) this.at = until - buckets
    let done = 0
    for (; this.at < until; this.at++) {
      const bucket = this.at % buckets
      while (this.wheel[bucket] !== none) {
        if (done >= most) return false
        const slot = this.wheel[bucket]!
        const chunk = this.chunks[slot >> chunkBits]!
        const at = slot & (perChunk - 1)
        this.wheel[bucket] = chunk.next[at]!
        const weight = chunk.weight[at]!
        done += Math.max(1, weight)
        const bytes = chunk.bytes.subarray(at * featureBytes, (at + 1) * featureBytes)
        const again = weight === 0 ? 0 : settle(bytes, weight)
        if (again > now) {
          this.chain(slot, now, again)
          continue
        }
        chunk.next[at] = this.free
        this.free = slot
        if (weight === 0) continue
        chunk.weight[at] = 0
        this.size--
      }
    }
    return true
  }

  /**
   * Some of what waits, evenly spread, each with its weight made larger by as much as was left out. In slices: what is settled
   * between them is left out, what is new may be in it.
   */
  *sample(most: number): Generator<undefined, { bytes: Uint8Array; weights: Uint8Array }> {
    const every = Math.max(1, Math.ceil(this.size / most))
    const scale = Math.min(255, every)
    const length = Math.min(most, this.size)
    const found = new Uint8Array(length * featureBytes)
    const weights = new Uint8Array(length)
    let [seen, count] = [0, 0]
    for (const { bytes, weight } of this.chunks) {
      for (let n = 0; n < perChunk; n++) {
        if (weight[n] === 0 || seen++ % every !== 0 || count >= length) continue
        // Byte by byte: a view of each would take three times as long.
        const [from, to] = [n * featureBytes, count * featureBytes]
        for (let at = 0; at < featureBytes; at++) found[to + at] = bytes[from + at]!
        weights[count++] = Math.min(255, weight[n]! * scale)
      }
      yield
    }
    return { bytes: found.subarray(0, count * featureBytes), weights: weights.subarray(0, count) }
  }
}
