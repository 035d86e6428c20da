/**
 * A strict JSON scanner (RFC 8259) without WebAssembly: the reference for index-scanner.ts, and its fallback. It builds no
 * values: `skip` validates a value and returns its end. It accepts exactly the documents that JSON.parse accepts.
 */
import { findLiterals } from './literals.ts'
import { Strings } from './strings.ts'
import { asciiEscape, BRACE, BRACKET, literal, malformed, number, QUOTE } from './syntax.ts'
import type { Keys, Read, Scanner } from './types.ts'

/** Deeper nesting is rejected, to bound the stack. */
const maxDepth = 1000

export class TextScanner extends Strings implements Scanner {
  /** Value of the last `read`; `undefined` for an object or an array. */
  value: string | number | boolean | null | undefined
  private depth = 0

  /** `u00` is rarer than a backslash, so it is searched first. */
  get asciiEscapes(): boolean {
    return this.text.includes('u00') && this.text.includes(asciiEscape)
  }

  literals(positions: number[], numbers: number[]): void {
    findLiterals(this.text, positions, numbers)
  }

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
  object<T>(at: number, table: Keys<T> | null, into: T): number {
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
  private member<T>(table: Keys<T>, start: number, end: number): number {
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
