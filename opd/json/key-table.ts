/** The keys that are read of JSON objects. */
import { keyNumber } from './known-keys.ts'
import type { Keys, Read } from './types.ts'

/** Keys are told apart by the lower five bits of their first byte: those of a letter. */
const letter = 31

/**
 * The keys of a JSON object that are read, each with the function that reads its value. A table is built once, so that
 * scanning allocates nothing and compares an unknown key with one or two candidates at most.
 */
export class KeyTable<T> implements Keys<T> {
  readonly reads: readonly Read<T>[]
  /** Called for each key of the table that is repeated in an object. */
  readonly repeated: ((into: T, key: string) => void) | null
  readonly keys: readonly string[]
  readonly byNumber = new Int8Array(256).fill(-1)
  /** By first byte: a bit for the length of each key with that first byte. It rejects most unknown keys. */
  private readonly lengths = new Int32Array(letter + 1)
  /** By first byte: the keys with it, each as its index, its length and its bytes; 0 ends them. */
  private readonly rows = new Int32Array(letter + 1)
  private readonly bytes: Uint8Array

  constructor(
    members: Readonly<Record<string, Read<T>>>,
    repeated: ((into: T, key: string) => void) | null = null,
  ) {
    this.keys = Object.keys(members)
    this.reads = Object.values(members)
    this.repeated = repeated
    const rows: number[][] = Array.from({ length: letter + 1 }, () => [])
    for (const [index, key] of this.keys.entries()) {
      const first = key.charCodeAt(0) & letter
      this.lengths[first]! |= 1 << key.length
      rows[first]!.push(key.length, index, ...Buffer.from(key))
      this.byNumber[keyNumber(key)] = index
    }
    const bytes: number[] = []
    for (const [first, row] of rows.entries()) {
      this.rows[first] = bytes.length
      bytes.push(...row, 0)
    }
    this.bytes = Uint8Array.from(bytes)
  }

  /** Index of the key between two offsets (quotes excluded); -1: not in the table. */
  find(body: Uint8Array, start: number, end: number): number {
    const length = end - start
    const first = body[start]! & letter
    if (((this.lengths[first]! >> length) & 1) === 0 || length > 31) return -1
    const { bytes } = this
    for (let row = this.rows[first]!; bytes[row] !== 0; row += bytes[row]! + 2)
      if (bytes[row] === length && equal(bytes, row + 2, body, start, length))
        return bytes[row + 1]!
    return -1
  }
}

function equal(key: Uint8Array, from: number, body: Uint8Array, start: number, length: number) {
  for (let at = 0; at < length; at++) if (key[from + at] !== body[start + at]) return false
  return true
}
