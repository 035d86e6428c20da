/**
 * Lines of the log between two threads, in shared memory. One thread adds lines and never waits. Whoever holds the lock writes
 * them to a file: a thread of its own while the process runs, and the thread that adds when the process ends. So no line is
 * lost at the end, none is written twice, and none is cut by another.
 */
import { writeSync } from 'node:fs'

/** Indices of the numbers in front of the bytes. `added` and `taken` count bytes, modulo 2^32. */
const [added, taken, lock] = [0, 1, 2]
const numbers = 3

/** Bytes that wait; further lines are dropped. */
const capacity = 1024 * 1024
/** Bytes of one write. */
const maxWrite = 64 * 1024
/** Milliseconds until a write is tried again for which the pipe had no room. */
const retryAfter = 20

export class LineRing {
  readonly memory: SharedArrayBuffer
  private readonly state: Int32Array
  private readonly bytes: Buffer

  /** @param memory of the ring of another thread; without it a new one */
  constructor(memory = new SharedArrayBuffer(numbers * 4 + capacity)) {
    this.memory = memory
    this.state = new Int32Array(memory, 0, numbers)
    this.bytes = Buffer.from(memory, numbers * 4, capacity)
  }

  /** False: the ring is full. Only one thread may call it. */
  addLine(line: string): boolean {
    const { state, bytes } = this
    const length = Buffer.byteLength(line)
    const from = state[added]!
    if (((from - Atomics.load(state, taken)) | 0) + length > capacity) return false
    const start = (from >>> 0) % capacity
    if (start + length <= capacity) bytes.write(line, start)
    else {
      const copy = Buffer.from(line)
      copy.copy(bytes, start, 0, capacity - start)
      copy.copy(bytes, 0, capacity - start)
    }
    Atomics.store(state, added, (from + length) | 0)
    Atomics.notify(state, added)
    return true
  }

  /** Blocks the thread until there are lines. */
  waitForLines(): void {
    const { state } = this
    Atomics.wait(state, added, Atomics.load(state, taken))
  }

  /**
   * Writes all lines. `wait`: milliseconds for which it waits for the thread that writes at the moment, and for a pipe that is
   * full; the rest is then lost. What cannot be written at all, such as to a pipe that was closed, is dropped.
   */
  drain(file: number, wait: number): void {
    const until = performance.now() + wait
    this.locked(until, () => {
      while (this.writeSome(file) && performance.now() < until);
    })
  }

  /**
   * Writes the line of another thread, while the thread that adds lines does not respond. The line is lost if the lock is not
   * free in time.
   *
   * @param file descriptor
   * @param line with its line feed
   * @param wait milliseconds, at most, for the thread that writes at the moment
   */
  writeAtOnce(file: number, line: string, wait: number): void {
    this.locked(performance.now() + wait, () => void writeSync(file, line))
  }

  /** Does nothing if the lock is not free in time. */
  private locked(until: number, work: () => void): void {
    const { state } = this
    while (Atomics.compareExchange(state, lock, 0, 1) !== 0) {
      const left = until - performance.now()
      if (left <= 0) return
      Atomics.wait(state, lock, 1, left)
    }
    try {
      work()
    } finally {
      Atomics.store(state, lock, 0)
      Atomics.notify(state, lock)
    }
  }

  /** False: there are no lines. */
  private writeSome(file: number): boolean {
    const { state, bytes } = this
    const from = Atomics.load(state, taken)
    const waiting = (Atomics.load(state, added) - from) | 0
    if (waiting === 0) return false
    const start = (from >>> 0) % capacity
    const length = Math.min(waiting, capacity - start, maxWrite)
    let written = length
    try {
      written = writeSync(file, bytes, start, length)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
        written = 0
        Atomics.wait(state, taken, from, retryAfter)
      }
    }
    Atomics.store(state, taken, (from + written) | 0)
    return true
  }
}
