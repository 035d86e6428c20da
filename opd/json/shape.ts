/**
 * What is to be read of a JSON object: its keys that matter, each with what reads its value. Bound once, so
 * that scanning allocates nothing and compares an unknown key with at most one or two candidates.
 */
import type { Scanner } from './scan.ts'

/** Reads the value at `at` into `into`; returns where it ends, or `malformed`. */
export type Read<T> = (scan: Scanner, at: number, into: T) => number

interface Candidate {
  bytes: Uint8Array
  bit: number
}

const slots = 64
const slotOf = (length: number, first: number) => (length * 5 + first) & (slots - 1)

export class Shape<T> {
  readonly reads: readonly Read<T>[]
  /** Told of each of the shape's keys that stands again in the same object. */
  readonly repeated: ((into: T, key: string) => void) | null
  readonly keys: readonly string[]
  /** By first byte, a bit for each length of a key that begins so: most keys are none of ours. */
  private readonly lengths = new Int32Array(256)
  private readonly table: readonly (readonly Candidate[])[]

  constructor(
    members: Readonly<Record<string, Read<T>>>,
    repeated: ((into: T, key: string) => void) | null = null,
  ) {
    this.keys = Object.keys(members)
    this.reads = Object.values(members)
    this.repeated = repeated
    const table: Candidate[][] = Array.from({ length: slots }, () => [])
    for (const [bit, key] of this.keys.entries()) {
      this.lengths[key.charCodeAt(0)]! |= 1 << key.length
      table[slotOf(key.length, key.charCodeAt(0))]!.push({ bytes: Buffer.from(key), bit })
    }
    this.table = table
  }

  /** The number of the key that stands between two offsets (quotes not included), -1 for any other. */
  find(body: Uint8Array, start: number, end: number): number {
    const length = end - start
    const first = body[start]!
    if (((this.lengths[first]! >> length) & 1) === 0 || length > 31) return -1
    const candidates = this.table[slotOf(length, first)]!
    for (let at = 0; at < candidates.length; at++) {
      const { bytes, bit } = candidates[at]!
      if (bytes.length === length && equal(bytes, body, start)) return bit
    }
    return -1
  }
}

function equal(key: Uint8Array, body: Uint8Array, start: number): boolean {
  for (let at = 0; at < key.length; at++) if (key[at] !== body[start + at]) return false
  return true
}
