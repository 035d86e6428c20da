/**
 * A strict JSON scanner (RFC 8259). The bytes are read as a latin1 string, so that positions are byte offsets. It builds
 * no values: `skip` validates a value and returns its end. It accepts exactly the documents that JSON.parse accepts.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { Strings } from './strings.ts'
import { BRACE, BRACKET, literal, malformed, number, QUOTE } from './syntax.ts'

/** Reads the value at `at` into `into`; returns the end of the value, or `malformed`. */
export type Read<T> = (scan: Scanner, at: number, into: T) => number

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
export class KeyTable<T> {
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

/** Deeper nesting is rejected, to bound the stack. */
const maxDepth = 1000

export class Scanner extends Strings {
  /** Value of the last `read`; `undefined` for an object or an array. */
  value: string | number | boolean | null | undefined
  private depth = 0

  /** The first position at or after `at` that is not white space. */
  space(at: number): number {
    const { bytes } = this
    for (;;) {
      const code = bytes[at]!
      if (code > 32) return at
      if (code === 32 || code === 10 || code === 13 || code === 9) at++
      else return at
    }
  }

  /** Any value; `at` is its first byte. */
  skip(at: number): number {
    const { bytes, text } = this
    switch (bytes[at]) {
      case QUOTE:
        return this.string(at)
      case BRACE:
        return this.object(at, null, null)
      case BRACKET:
        return this.array(at, skipElement, null)
      case 116:
        return literal(text, at, 'true')
      case 102:
        return literal(text, at, 'false')
      case 110:
        return literal(text, at, 'null')
      default:
        return number(text, at)
    }
  }

  /** An object. Values of the table's keys are read into `into`, all others are skipped. */
  object<T>(at: number, table: KeyTable<T> | null, into: T): number {
    if (++this.depth > maxDepth) return malformed
    const { bytes } = this
    let seen = 0
    if (!(bytes[++at]! > 32)) at = this.space(at)
    if (bytes[at] === 125) {
      this.depth--
      return at + 1
    }
    for (;;) {
      if (bytes[at] !== QUOTE) return malformed
      const end = this.string(at)
      if (end === malformed) return malformed
      const member = table === null ? -1 : this.member(table, at, end)
      at = bytes[end] === 58 ? end : this.space(end)
      if (bytes[at] !== 58) return malformed
      if (!(bytes[++at]! > 32)) at = this.space(at)
      if (member === -1) at = this.skip(at)
      else {
        if ((seen & (1 << member)) !== 0) table!.repeated?.(into, table!.keys[member]!)
        seen |= 1 << member
        at = table!.reads[member]!(this, at, into)
      }
      if (at === malformed) return malformed
      if (!(bytes[at]! > 32)) at = this.space(at)
      const code = bytes[at]
      if (code === 125) {
        this.depth--
        return at + 1
      }
      if (code !== 44) return malformed
      if (!(bytes[++at]! > 32)) at = this.space(at)
    }
  }

  /** A key may be written with escapes. */
  private member<T>(table: KeyTable<T>, start: number, end: number): number {
    if (!this.escaped) return table.find(this.bytes, start + 1, end - 1)
    const key = this.decoded(start, end)
    return table.keys.indexOf(key)
  }

  array<T>(at: number, element: Read<T>, into: T): number {
    if (++this.depth > maxDepth) return malformed
    const { bytes } = this
    if (!(bytes[++at]! > 32)) at = this.space(at)
    if (bytes[at] === 93) {
      this.depth--
      return at + 1
    }
    for (;;) {
      at = element(this, at, into)
      if (at === malformed) return malformed
      if (!(bytes[at]! > 32)) at = this.space(at)
      const code = bytes[at]
      if (code === 93) {
        this.depth--
        return at + 1
      }
      if (code !== 44) return malformed
      if (!(bytes[++at]! > 32)) at = this.space(at)
    }
  }

  /** The whole document: one value with optional white space around it. */
  document<T>(value: Read<T>, into: T): boolean {
    this.depth = 0
    this.rewind()
    const end = value(this, this.space(0), into)
    return end !== malformed && this.space(end) === this.text.length
  }

  /** Like `skip`, and stores the value of a string, number, boolean or null in `value`. */
  read(at: number): number {
    const end = this.skip(at)
    if (end !== malformed) this.value = this.leaf(at, end)
    return end
  }

  private leaf(at: number, end: number): Scanner['value'] {
    switch (this.bytes[at]) {
      case QUOTE:
        return this.decoded(at, end)
      case BRACE:
      case BRACKET:
        return undefined
      case 116:
        return true
      case 102:
        return false
      case 110:
        return null
      default:
        return Number(this.text.slice(at, end))
    }
  }
}

const skipElement: Read<null> = (scan, at) => scan.skip(at)

/** Reads an object by its key table. Any other value is skipped. */
export function readObject<T>(scan: Scanner, at: number, table: KeyTable<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACE ? scan.object(at, table, into) : scan.skip(at)
}

/** Reads an array, element by element. Any other value is skipped. */
export function readArray<T>(scan: Scanner, at: number, element: Read<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACKET ? scan.array(at, element, into) : scan.skip(at)
}

/** null: not UTF-8. A byte-order mark is not JSON, so the scan rejects it. */
export function createScanner(body: Buffer): Scanner | null {
  const ascii = isAscii(body)
  return ascii || isUtf8(body) ? new Scanner(body, ascii) : null
}
