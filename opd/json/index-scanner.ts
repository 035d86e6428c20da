/**
 * A JSON scanner over the index of a valid document: it visits the members of the objects that are read, and passes over
 * all other values. It gives the readers exactly what text-scanner.ts gives them.
 */
import {
  ASCII_ESCAPES,
  bytes,
  END,
  ensureIndexed,
  FIRST,
  FOUND_END,
  found,
  HIGH_FROM,
  HIGH_TO,
  header,
  input,
  KEY,
  KEY_START,
  NEXT,
  recordWords,
  root,
  SIBLING,
  SLASH_FROM,
  SLASH_TO,
  START,
  words,
} from './index-memory.ts'
import { escapedKey } from './known-keys.ts'
import { BACKSLASH, BRACE, BRACKET, malformed, NINE, QUOTE, ZERO } from './syntax.ts'
import type { Body, Keys, Read, Scanner } from './types.ts'

export class IndexScanner implements Scanner {
  readonly text: string
  value: Scanner['value']
  readonly asciiEscapes: boolean
  private readonly body: Body
  private bytes = bytes
  private words = words
  /** The record of the value that is read. */
  private record = 0
  /** Bounds of the bytes that are not ASCII, and of the backslashes. */
  private highFrom = 0
  private highTo = 0
  private slashFrom = 0
  private slashTo = 0

  /** `body` is indexed. */
  constructor(body: Body) {
    this.body = body
    this.text = typeof body === 'string' ? body : body.toString('latin1')
    this.asciiEscapes = words[header + ASCII_ESCAPES] !== 0
  }

  literals(positions: number[], numbers: number[]): void {
    ensureIndexed(this.body)
    const end = words[header + FOUND_END]!
    for (let at = found; at < end; at += 2) {
      positions.push(words[at]!)
      numbers.push(words[at + 1]!)
    }
  }

  document<T>(value: Read<T>, into: T): boolean {
    if (!ensureIndexed(this.body)) return false
    this.bytes = bytes
    this.words = words
    this.highFrom = words[header + HIGH_FROM]!
    this.highTo = words[header + HIGH_TO]!
    this.slashFrom = words[header + SLASH_FROM]!
    this.slashTo = words[header + SLASH_TO]!
    this.record = root
    return value(this, words[root + START]!, into) !== malformed
  }

  skip(_at: number): number {
    return this.words[this.record + END]!
  }

  read(at: number): number {
    const end = this.words[this.record + END]!
    this.value = this.leaf(at, end)
    return end
  }

  object<T>(_at: number, table: Keys<T>, into: T): number {
    const { words, record } = this
    const { byNumber, reads } = table
    let seen = 0
    for (let at = words[record + FIRST]!; at !== 0; at = words[at + SIBLING]!) {
      const key = words[at + KEY]!
      const member = key === escapedKey ? this.escapedMember(table, at) : byNumber[key]!
      if (member === -1) continue
      if ((seen & (1 << member)) !== 0) table.repeated?.(into, table.keys[member]!)
      seen |= 1 << member
      this.record = at
      if (reads[member]!(this, words[at + START]!, into) === malformed) return malformed
    }
    return words[record + END]!
  }

  private escapedMember<T>({ keys }: Keys<T>, record: number): number {
    const { bytes, words } = this
    const start = words[record + KEY_START]!
    let end = start + 1
    while (bytes[input + end] !== QUOTE) end += bytes[input + end] === BACKSLASH ? 2 : 1
    return keys.indexOf(this.decoded(start, end + 1))
  }

  array<T>(_at: number, element: Read<T>, into: T): number {
    const { words, record } = this
    const last = words[record + NEXT]!
    for (let at = record + recordWords; at < last; at = words[at + NEXT]!) {
      this.record = at
      if (element(this, words[at + START]!, into) === malformed) return malformed
    }
    return words[record + END]!
  }

  private leaf(at: number, end: number): Scanner['value'] {
    switch (this.bytes[input + at]) {
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
        return this.number(at, end)
    }
  }

  private number(start: number, end: number): number {
    const { bytes } = this
    let value = 0
    // Most numbers have few digits: faster than a slice and Number().
    if (end - start < 10)
      for (let at = start; ; at++) {
        if (at === end) return value
        const code = bytes[input + at]!
        if (code < ZERO || code > NINE) break
        value = value * 10 + code - ZERO
      }
    return Number(this.text.slice(start, end))
  }

  /** `start` and `end` include the quotes. */
  private decoded(start: number, end: number): string {
    const isOdd =
      (start < this.highTo && end > this.highFrom) || (start < this.slashTo && end > this.slashFrom)
    if (isOdd && !this.isPlain(start + 1, end - 1))
      return JSON.parse(this.bytes.toString('utf8', input + start, input + end)) as string
    // A short slice is a copy.
    if (end - start < 15) return this.text.slice(start + 1, end - 1)
    return this.bytes.toString('latin1', input + start + 1, input + end - 1)
  }

  /** Whether a string is its own bytes: ASCII without escapes. */
  private isPlain(start: number, end: number): boolean {
    const { bytes } = this
    for (let at = input + start; at < input + end; at++)
      if (bytes[at]! > 126 || bytes[at] === BACKSLASH) return false
    return true
  }
}
