/**
 * A strict JSON scanner (RFC 8259) over bytes seen as a latin1 string, so that positions are byte offsets. It
 * builds nothing: `skip` validates a value and returns where it ends. It agrees with JSON.parse on what is JSON.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import type { Read, Shape } from './shape.ts'
import { Strings } from './strings.ts'
import { BRACE, BRACKET, literal, malformed, number, QUOTE } from './text.ts'

/** Nesting that is read; deeper is left alone (it would be a stack, not a bid). */
export const maxDepth = 1000

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
