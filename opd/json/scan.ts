/**
 * A strict JSON scanner (RFC 8259) over bytes seen as a latin1 string, so that positions are byte offsets. It
 * builds nothing: `skip` validates a value and returns where it ends. It agrees with JSON.parse on what is JSON.
 *
 * Long strings are crossed with indexOf, not byte by byte: 2 us for a 3 KB banner bid.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import type { Read, Shape } from './shape.ts'
import {
  BACKSLASH,
  BRACE,
  BRACKET,
  hasControls,
  holdsControl,
  isEscape,
  isHex4,
  literal,
  malformed,
  nextOf,
  number,
  QUOTE,
} from './text.ts'

export { malformed }

/** Nesting that is read; deeper is left alone (it would be a stack, not a bid). */
export const maxDepth = 1000

const asciiText = /^[\x20-\x7e]*$/

export class Scanner {
  readonly text: string
  /** What the last `read` read; `undefined` for an object or an array. */
  value: string | number | boolean | null | undefined
  private depth = 0
  private readonly bytes: Uint8Array
  private readonly ascii: boolean
  private readonly controls: boolean
  /**
   * The next backslash behind the last long string's begin. Kept, because looking for one anew in each string of a
   * body without any would read that body once a string.
   */
  private slash = -1
  /** Whether the last `string` held an escape. */
  private escaped = false

  /** `body` must be UTF-8: see `scannerOf`. */
  constructor(body: Buffer, ascii: boolean) {
    this.text = body.toString('latin1')
    this.bytes = body
    this.ascii = ascii
    this.controls = hasControls(body)
  }

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

  /** A string; `at` is its opening quote, the answer is behind its closing one. */
  string(at: number): number {
    const { bytes } = this
    // Most strings are keys and ids: a look at the first bytes is cheaper than a search.
    for (let near = at + 1; near < at + 20; near++) {
      const code = bytes[near]!
      if (code === QUOTE) {
        this.escaped = false
        return near + 1
      }
      if (code === BACKSLASH || code < 0x20) break
    }
    return this.long(at)
  }

  private long(at: number): number {
    const { text } = this
    let quote = text.indexOf('"', at + 1)
    if (quote < 0) return malformed
    if (this.slash <= at) this.slash = nextOf(text, '\\', at + 1)
    this.escaped = this.slash < quote
    if (this.escaped) {
      quote = this.escapes(quote)
      if (quote === malformed) return malformed
    }
    if (this.controls && holdsControl(text, at + 1, quote)) return malformed
    return quote + 1
  }

  /** Crosses the escapes of a string of which `quote` may be an escaped one; returns the closing quote. */
  private escapes(quote: number): number {
    const { text, bytes } = this
    let { slash } = this
    while (slash < quote) {
      const spelled = bytes[slash + 1]!
      let from = slash + 2
      if (spelled === 117) {
        if (!isHex4(text, from)) return malformed
        from += 4
      } else if (!isEscape(spelled)) return malformed
      if (from > quote) {
        quote = text.indexOf('"', from)
        if (quote < 0) return malformed
      }
      slash = bytes[from] === BACKSLASH ? from : nextOf(text, '\\', from)
    }
    this.slash = slash
    return quote
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
    this.slash = -1
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

  /** The string that `string` crossed last, as JavaScript knows it. `start` and `end` include the quotes. */
  private decoded(start: number, end: number): string {
    const raw = this.text.slice(start + 1, end - 1)
    if (this.escaped || !(this.ascii || asciiText.test(raw)))
      // Latin1 of ASCII is itself; anything else was UTF-8.
      return JSON.parse(`"${Buffer.from(raw, 'latin1').toString()}"`) as string
    return raw.length < 13 ? raw : own(raw)
  }
}

/** A slice of 13 and more characters keeps the whole body alive (V8), and ids live for hours in the bid log. */
const own = (slice: string) => `${slice} `.slice(0, -1)

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
