/**
 * Exposures that wait to be taught: rooms of 51 bytes, chained into the buckets of a wheel by the time they are due.
 *
 *   wheel   [ now | +1 | +2 | … 65535 ]       a bucket is 1/65536 of the longest wait: 27 ms of 30 min
 *              │
 *              └▶ room 7 ─▶ room 2 ─▶ …       next room of the bucket; free rooms are a chain of their own
 *
 * A ticket (room and generation) finds a room again, so that a win takes its exposure out in one step. At any rate it
 * holds no more than its rooms, under 64 MB: when they fill, one in 2, 4, 8 is kept, and counts as so many.
 */
import { writeTicket } from '../exposure.ts'
import { featureBytes } from '../features.ts'

const roomBits = 21
const chunkBits = 14
const perChunk = 2 ** chunkBits
const buckets = 65_536
const none = -1
/** 58 bytes a room. */
const roomsMost = 2 ** 20

/** Rooms come in chunks, so that a quiet node holds one. */
interface Chunk {
  bytes: Uint8Array
  next: Int32Array
  generation: Uint16Array
  /** 0: free, or taken out while its bucket still names it. */
  weight: Uint8Array
}

export class Pending {
  private readonly chunks: Chunk[] = []
  private readonly wheel = new Int32Array(buckets).fill(none)
  private free = none
  private rooms = 0
  private readonly most: number
  private readonly width: number
  /** The bucket that is due next, counted from time 0; NaN before the first exposure. */
  private at = Number.NaN
  private counter = 0
  /** Exposures that wait, and ones that were not kept because rooms ran out: others count for them. */
  size = 0
  sampled = 0

  /** `longest`: milliseconds that an exposure waits at the most. */
  constructor(longest: number, most = roomsMost) {
    this.width = Math.max(1, longest / (buckets - 2))
    this.most = Math.min(most, roomsMost)
  }

  /** When what is handed out now was due, to a bucket. */
  get dueAt(): number {
    return this.at * this.width
  }

  /** How many one that is kept now stands for. */
  private weightNow(): number {
    const full = this.size / this.most
    if (full < 0.7) return 1
    return full < 0.85 ? 2 : full < 0.95 ? 4 : 8
  }

  /** Keeps bytes until `due`, with the ticket written into them; 0: this one is not kept, others count for it. */
  add(bytes: Uint8Array, now: number, due: number | ((ticket: number) => number)): number {
    const weight = this.weightNow()
    this.counter = (this.counter + 1) >>> 0
    if (weight > 1 && (Math.imul(this.counter, 0x9e3779b1) >>> 0) % weight !== 0) {
      this.sampled++
      return 0
    }
    return this.place(bytes, now, due, weight)
  }

  place(
    bytes: Uint8Array,
    now: number,
    due: number | ((ticket: number) => number),
    weight: number,
  ): number {
    const room = this.room()
    if (room === none) {
      this.sampled++
      return 0
    }
    const chunk = this.chunks[room >> chunkBits]!
    const at = room & (perChunk - 1)
    const generation = (chunk.generation[at]! + 1) & 0x7ff
    const ticket = ((generation << roomBits) | (room + 1)) >>> 0
    chunk.generation[at] = generation
    writeTicket(bytes, ticket)
    chunk.bytes.set(bytes, at * featureBytes)
    chunk.weight[at] = weight
    this.size++
    this.chain(room, now, typeof due === 'number' ? due : due(ticket))
    return ticket
  }

  private chain(room: number, now: number, due: number): void {
    const nowBucket = Math.floor(now / this.width)
    // Nothing before, or a clock that was set back by more than the wheel is long.
    if (!(this.at >= 0) || nowBucket < this.at - buckets) this.at = nowBucket
    const wanted = Math.floor(due / this.width)
    // A clock that jumped: not before what is due next, not beyond the wheel.
    const bucket = Math.min(this.at + buckets - 1, Math.max(this.at, wanted))
    const slot = bucket % buckets
    this.chunks[room >> chunkBits]!.next[room & (perChunk - 1)] = this.wheel[slot]!
    this.wheel[slot] = room
  }

  private room(): number {
    if (this.free === none) {
      if (this.rooms >= this.most) return none
      const chunk: Chunk = {
        bytes: new Uint8Array(perChunk * featureBytes),
        next: new Int32Array(perChunk),
        generation: new Uint16Array(perChunk),
        weight: new Uint8Array(perChunk),
      }
      for (let n = perChunk - 1; n >= 0; n--) {
        chunk.next[n] = this.free
        this.free = this.rooms + n
      }
      this.chunks.push(chunk)
      this.rooms += perChunk
    }
    const room = this.free
    this.free = this.chunks[room >> chunkBits]!.next[room & (perChunk - 1)]!
    return room
  }

  /** Takes out the exposure of these bytes; its weight, or 0: it is not here (any more). */
  take(ticket: number, bytes: Uint8Array): number {
    const room = (ticket & (2 ** roomBits - 1)) - 1
    const chunk = this.chunks[room >> chunkBits]
    if (room < 0 || chunk === undefined) return 0
    const at = room & (perChunk - 1)
    if (chunk.generation[at] !== ticket >>> roomBits || chunk.weight[at] === 0) return 0
    // Tickets of other nodes look alike: only the same exposure is taken.
    const from = at * featureBytes
    for (let n = 0; n < featureBytes; n++) if (chunk.bytes[from + n] !== bytes[n]) return 0
    const weight = chunk.weight[at]!
    chunk.weight[at] = 0
    this.size--
    return weight
  }

  /**
   * Hands what is due to `settle`, `most` at a time, counted by weight, as each is taught as often; false: there is more.
   * `settle` answers when it wants to see the exposure again; 0: never.
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
    while (this.at < until) {
      const slot = this.at % buckets
      while (this.wheel[slot] !== none) {
        if (done >= most) return false
        const room = this.wheel[slot]!
        const chunk = this.chunks[room >> chunkBits]!
        const at = room & (perChunk - 1)
        this.wheel[slot] = chunk.next[at]!
        const weight = chunk.weight[at]!
        done += Math.max(1, weight)
        const bytes = chunk.bytes.subarray(at * featureBytes, (at + 1) * featureBytes)
        const again = weight === 0 ? 0 : settle(bytes, weight)
        if (again > now) {
          this.chain(room, now, again)
          continue
        }
        chunk.next[at] = this.free
        this.free = room
        if (weight === 0) continue
        chunk.weight[at] = 0
        this.size--
      }
      this.at++
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
    const room = Math.min(most, this.size)
    const found = new Uint8Array(room * featureBytes)
    const weights = new Uint8Array(room)
    let [seen, count] = [0, 0]
    for (const { bytes, weight } of this.chunks) {
      for (let n = 0; n < perChunk; n++) {
        if (weight[n] === 0 || seen++ % every !== 0 || count >= room) continue
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
