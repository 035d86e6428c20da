/** The keys that are read of JSON objects. */
import type { Keys, Read } from './types.ts'

interface Candidate {
  bytes: Uint8Array
  bit: number
}

const slots = 64
const slotOf = (length: number, first: number) => (length * 5 + first) & (slots - 1)

/**
 * The keys of a JSON object that are read, each with the function that reads its value. A table is built once, so that
 * scanning allocates nothing and compares an unknown key with one or two candidates at most.
 */
export class KeyTable<T> implements Keys<T> {
  readonly reads: readonly Read<T>[]
  /** Called for each key of the table that is repeated in an object. */
  readonly repeated: ((into: T, key: string) => void) | null
  readonly keys: readonly string[]
  /** By first byte: a bit for the length of each key with that first byte. It rejects most unknown keys. */
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

  /** Index of the key between two offsets (quotes excluded); -1: not in the table. */
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
