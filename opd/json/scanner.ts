/**
 * A strict JSON scanner (RFC 8259) over bytes seen as a latin1 string, so that positions are byte offsets. It
 * builds nothing: `skip` validates a value and returns where it ends. It agrees with JSON.parse on what is JSON.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { Strings } from './strings.ts'
import { BRACE, BRACKET, literal, malformed, number, QUOTE } from './syntax.ts'

/** Reads the value at `at` into `into`; returns where it ends, or `malformed`. */
export type Read<T> = (scan: Scanner, at: number, into: T) => number

interface Candidate {
  bytes: Uint8Array
  bit: number
}

const slots = 64
const slotOf = (length: number, first: number) => (length * 5 + first) & (slots - 1)

/**
 * What is to be read of a JSON object: its keys that matter, each with what reads its value. Bound once, so
 * that scanning allocates nothing and compares an unknown key with at most one or two candidates.
 */
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

/** Nesting that is read; deeper is left alone (it would be a stack, not a bid). */
const maxDepth = 1000

export class Scanner extends Strings {
  /** What the last `read` read; `undefined` for an object or an array. */
  value: string | number | boolean | null | undefined
  private depth = 0

  /** The first place at or after `at` that is no white space. */
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

  /** An object; the values of the shape's keys are read into `into`, all others skipped. */
  object<T>(at: number, shape: Shape<T> | null, into: T): number {
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
      const member = shape === null ? -1 : this.member(shape, at, end)
      at = bytes[end] === 58 ? end : this.space(end)
      if (bytes[at] !== 58) return malformed
      if (!(bytes[++at]! > 32)) at = this.space(at)
      if (member === -1) at = this.skip(at)
      else {
        if ((seen & (1 << member)) !== 0) shape!.repeated?.(into, shape!.keys[member]!)
        seen |= 1 << member
        at = shape!.reads[member]!(this, at, into)
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

  /** A key spelled with escapes is the key that it spells. */
  private member<T>(shape: Shape<T>, start: number, end: number): number {
    if (!this.escaped) return shape.find(this.bytes, start + 1, end - 1)
    const key = this.decoded(start, end)
    return shape.keys.indexOf(key)
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

  /** The whole document: one value and white space around it. */
  document<T>(value: Read<T>, into: T): boolean {
    this.depth = 0
    this.rewind()
    const end = value(this, this.space(0), into)
    return end !== malformed && this.space(end) === this.text.length
  }

  /** Like `skip`, and leaves a leaf's value in `value`. */
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

/** An object read by its shape; any other value is skipped. */
export function objectOf<T>(scan: Scanner, at: number, shape: Shape<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACE ? scan.object(at, shape, into) : scan.skip(at)
}

/** An array read element by element; any other value is skipped. */
export function listOf<T>(scan: Scanner, at: number, element: Read<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACKET ? scan.array(at, element, into) : scan.skip(at)
}

/** null: not UTF-8. A byte-order mark is no JSON, so it is malformed where it is scanned. */
export function scannerOf(body: Buffer): Scanner | null {
  const ascii = isAscii(body)
  return ascii || isUtf8(body) ? new Scanner(body, ascii) : null
}
