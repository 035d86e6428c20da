/**
 * What is to be read of a JSON object: its keys that matter, each with what reads its value. Bound once, so
 * that scanning allocates nothing and compares an unknown key with at most one or two candidates.
 */
import type { Scanner } from './scan.ts'

/** Reads the value at `at` into `into`; returns where it ends, or `malformed`. */
export type Read<T> = (scan: Scanner, at: number, into: T) => number

interface Candidate {
  key: string
  bit: number
}

const slots = 64
const slotOf = (length: number, first: number) => (length * 5 + first) & (slots - 1)

export class Shape<T> {
  readonly reads: readonly Read<T>[]
  /** Told of each of the shape's keys that stands again in the same object. */
  readonly repeated: ((into: T, key: string) => void) | null
  readonly keys: readonly string[]
  private readonly table: readonly (readonly Candidate[])[]

  constructor(
    members: Readonly<Record<string, Read<T>>>,
    repeated: ((into: T, key: string) => void) | null = null,
  ) {
    this.keys = Object.keys(members)
    this.reads = Object.values(members)
    this.repeated = repeated
    const table: Candidate[][] = Array.from({ length: slots }, () => [])
    for (const [bit, key] of this.keys.entries())
      table[slotOf(key.length, key.charCodeAt(0))]!.push({ key, bit })
    this.table = table
  }

  /** The number of the key between two offsets of `text` (quotes not included), -1 for any other. */
  find(text: string, start: number, end: number): number {
    const candidates = this.table[slotOf(end - start, text.charCodeAt(start))]!
    for (let at = 0; at < candidates.length; at++) {
      const { key, bit } = candidates[at]!
      if (key.length === end - start && text.startsWith(key, start)) return bit
    }
    return -1
  }
}
