/**
 * Exposures that are to be trained as lost later: slots of 46 bytes, linked into the buckets of a timing wheel by the time at
 * which they are due.
 *
 *   wheel   [ now | +1 | +2 | … 65535 ]       a bucket is 1/65536 of the longest wait: 27 ms of 30 min
 *              │
 *              └▶ slot 7 ─▶ slot 2 ─▶ …       next slot of the bucket; free slots are linked as well
 *
 * A ticket (slot and generation) finds a slot, so that a win removes its exposure in one step. All slots take less than 64 MB,
 * at any rate of bids: when they fill, one exposure in 2, 4 or 8 is kept, and counts as so many.
 */
import { uncountedMemory } from '../../base/uncounted-memory.ts'
import { writeTicket } from '../exposure.ts'
import { featureBytes, hasFeatures } from '../features.ts'
import { bytesOf, reader } from '../frame.ts'

const slotBits = 21
const chunkBits = 14
const perChunk = 2 ** chunkBits
const buckets = 65_536
const none = -1
/** 46 bytes a slot. */
const slotsMost = 2 ** 20

/** Slots are allocated in chunks, so that a node with little traffic has one chunk. */
class Chunk {
  /** The memory of all that follows. */
  readonly all = uncountedMemory(perChunk * (4 + 2 + 1 + featureBytes))
  readonly next = new Int32Array(this.all.buffer, 0, perChunk)
  readonly generation = new Uint16Array(this.all.buffer, 4 * perChunk, perChunk)
  /** 0: free, or removed but still linked in its bucket. */
  readonly weight = this.all.subarray(6 * perChunk, 7 * perChunk)
  readonly bytes = this.all.subarray(7 * perChunk)
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
  private bucket = Number.NaN
  private counter = 0

  /** `longest`: milliseconds until an exposure is due, at most. */
  constructor(longest: number, most = slotsMost) {
    this.width = Math.max(1, longest / (buckets - 2))
    this.most = most
  }

  /** The time of the present bucket: exposures that `advance` settles now were due then. */
  get dueAt(): number {
    return this.bucket * this.width
  }

  /** Number of exposures that one represents if it is kept now. */
  private weightNow(): number {
    const full = this.size / this.most
    if (full < 0.7) return 1
    return full < 0.85 ? 2 : full < 0.95 ? 4 : 8
  }

  /** Keeps bytes until `due`, and writes the ticket into them. 0: it is not kept, and others represent it. */
  addExposure(bytes: Uint8Array, now: number, due: Due): number {
    const weight = this.weightNow()
    this.counter = (this.counter + 1) >>> 0
    if (weight > 1 && (Math.imul(this.counter, 0x9e3779b1) >>> 0) % weight !== 0) return 0
    return this.place(bytes, now, due, weight)
  }

  /** Keeps an exposure that represents `weight` bids. */
  place(bytes: Uint8Array, now: number, due: Due, weight: number): number {
    const slot = this.freeSlot()
    if (slot === none) return 0
    const chunk = this.chunks[slot >> chunkBits]!
    const offset = slot & (perChunk - 1)
    const generation = (chunk.generation[offset]! + 1) & 0x7ff
    const ticket = ((generation << slotBits) | (slot + 1)) >>> 0
    chunk.generation[offset] = generation
    writeTicket(bytes, ticket)
    chunk.bytes.set(bytes, offset * featureBytes)
    chunk.weight[offset] = weight
    this.size++
    this.chain(slot, now, due(ticket))
    return ticket
  }

  private chain(slot: number, now: number, due: number): void {
    const nowBucket = Math.floor(now / this.width)
    // The first exposure, or the clock was set back by more than the length of the wheel.
    if (!(this.bucket >= 0) || nowBucket < this.bucket - buckets) this.bucket = nowBucket
    const wanted = Math.floor(due / this.width)
    // If the clock jumped: not before the next bucket, and not beyond the wheel.
    const bucket = Math.min(this.bucket + buckets - 1, Math.max(this.bucket, wanted)) % buckets
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

  /** Removes the exposure of these bytes. Returns its weight; 0: it is not pending on this node. */
  takeExposure(ticket: number, bytes: Uint8Array): number {
    const slot = (ticket & (2 ** slotBits - 1)) - 1
    const chunk = this.chunks[slot >> chunkBits]
    if (slot < 0 || chunk === undefined) return 0
    const offset = slot & (perChunk - 1)
    const weight = chunk.weight[offset]!
    if (chunk.generation[offset] !== ticket >>> slotBits || weight === 0) return 0
    // Another node may have used the same ticket for another exposure.
    if (!hasFeatures(chunk.bytes, offset * featureBytes, bytes)) return 0
    chunk.weight[offset] = 0
    this.size--
    return weight
  }

  /**
   * Calls `settle` with each exposure that is due, up to a sum of weights of `most`, because an exposure is trained as often as
   * its weight. `settle` returns the time at which it is to be called again for the exposure; 0: never. False: more are due.
   */
  advance(
    now: number,
    most: number,
    settle: (bytes: Uint8Array, weight: number) => number,
  ): boolean {
    if (!(this.bucket >= 0)) return true
    const until = Math.floor(now / this.width)
    // If the clock jumped far ahead, every bucket is visited once.
    if (until - this.bucket > buckets) this.bucket = until - buckets
    let done = 0
    for (; this.bucket < until; this.bucket++) {
      const bucket = this.bucket % buckets
      while (this.wheel[bucket] !== none) {
        if (done >= most) return false
        const slot = this.wheel[bucket]!
        const chunk = this.chunks[slot >> chunkBits]!
        const offset = slot & (perChunk - 1)
        this.wheel[bucket] = chunk.next[offset]!
        const weight = chunk.weight[offset]!
        done += Math.max(1, weight)
        const bytes = chunk.bytes.subarray(offset * featureBytes, (offset + 1) * featureBytes)
        const again = weight === 0 ? 0 : settle(bytes, weight)
        if (again > now) {
          this.chain(slot, now, again)
          continue
        }
        chunk.next[offset] = this.free
        this.free = slot
        if (weight === 0) continue
        chunk.weight[offset] = 0
        this.size--
      }
    }
    return true
  }

  /**
   * The whole state, in slices; null: it has too many slots.
   *
   * @param most slots, at most
   */
  *saving(most: number): Generator<undefined, Uint8Array[] | null> {
    const { chunks, wheel, free, slots, bucket, counter, size } = this
    if (slots > most) return null
    const head = Float64Array.of(free, slots, bucket, counter, size)
    const pieces = [bytesOf(head.slice()), bytesOf(wheel.slice())]
    for (const { all } of chunks) {
      yield
      pieces.push(all.slice())
    }
    return pieces
  }

  /** Restores what `saving` returned. Throws if there are too few bytes. */
  restoreExposures(bytes: Uint8Array): void {
    const take = reader(bytes)
    const [free, slots, bucket, counter, size] = new Float64Array(take(40).buffer)
    this.wheel.set(new Int32Array(take(4 * buckets).buffer))
    for (let from = 0; from < slots!; from += perChunk) {
      const chunk = new Chunk()
      chunk.all.set(take(chunk.all.length))
      this.chunks.push(chunk)
    }
    Object.assign(this, { free, slots, bucket, counter, size })
  }

  /**
   * An even sample of the pending exposures, with weights that make up for the rest. It is taken in slices: exposures that are
   * settled between slices are not in it, and new ones may be.
   *
   * @param most exposures, at most
   */
  *sample(most: number): Generator<undefined, { bytes: Uint8Array; weights: Uint8Array }> {
    if (most === 0) return { bytes: new Uint8Array(0), weights: new Uint8Array(0) }
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
        for (let index = 0; index < featureBytes; index++) found[to + index] = bytes[from + index]!
        weights[count++] = Math.min(255, weight[n]! * scale)
      }
      yield
    }
    return { bytes: found.subarray(0, count * featureBytes), weights: weights.subarray(0, count) }
  }
}
