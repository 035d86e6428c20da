/**
 * Reads a JSON document by its index: visits the members that a table of keys names, and skips all other values. Positions are
 * byte offsets.
 */
import {
  type Body,
  DocumentIndex,
  escapedKey,
  keyNumber,
  type Literals,
  recordWords,
  type Windows,
} from './document-index.ts'

/** The fields of a record, which describes one value. The first two, of a member with a known key: its position and number. */
const KEY_START = 0
const KEY = 1
const START = 2
const END = 3
/** The next record after the value; of an array, after its elements. */
const NEXT = 4
/** Of a member with a known key: the next such member of the object; 0: none. */
const SIBLING = 5
/** Of an object: its first member with a known key; 0: none. It is also 0 if the object is below an unknown key. */
const FIRST = 6

/**
 * The head of an index: bounds of the bytes that are not ASCII, bounds of the backslashes, whether there is any `\u00`, and the
 * end of the literals (opd/json/document-index.ts).
 */
const HIGH_FROM = 0
const HIGH_TO = 1
const SLASH_FROM = 2
const SLASH_TO = 3
const ASCII_ESCAPES = 4

const QUOTE = 34
const BACKSLASH = 92
const BRACKET = 91
const BRACE = 123
const MINUS = 45
const ZERO = 48
const NINE = 57
const TRUE = 116
const FALSE = 102
const NULL = 110

export type { Body }

/** `undefined` for an object or an array. */
export type Leaf = string | number | boolean | null | undefined

/** Reads the value that `scan` is at into `into`. */
export type Read<T> = (scan: Scanner, into: T) => void

/** The keys of an object that are read, each with the function that reads its value. A table is built once. */
export class KeyTable<T> {
  readonly keys: readonly string[]
  readonly reads: readonly Read<T>[]
  /** Called for each key of the table that occurs again in an object. */
  readonly repeated: ((into: T, key: string) => void) | null
  /** Index of a key by its number; -1: not in the table. */
  readonly byNumber = new Int8Array(256).fill(-1)

  constructor(
    members: Readonly<Record<string, Read<T>>>,
    repeated: ((into: T, key: string) => void) | null = null,
  ) {
    this.keys = Object.keys(members)
    this.reads = Object.values(members)
    this.repeated = repeated
    for (const [index, key] of this.keys.entries()) this.byNumber[keyNumber(key)] = index
  }
}

/** Bytes of a document that is indexed and read at once: that takes 2 ms at worst. */
export const shortDocument = 64 * 1024

const shortIndex = new DocumentIndex()
/** So that one long document does not make the index of short ones long. */
const wholeIndex = new DocumentIndex()

/**
 * A scanner of the document, at its whole value, valid until the next call. null: not JSON in UTF-8 (RFC 8259), nested
 * deeper than 1,000, or too long.
 *
 * @param body bytes, or latin1 text of the bytes
 */
export function createScanner(body: Body): Scanner | null {
  const index = body.length <= shortDocument ? shortIndex : wholeIndex
  return index.indexWhole(body) ? new Scanner(body, index) : null
}

/**
 * A member of the outermost object, read without an index. No scanner of a short document is valid afterwards.
 *
 * @param body at most `shortDocument` bytes; it may be malformed
 * @param key its four ASCII characters, the first one in the lowest byte
 * @returns its value, if that is a positive integer and the only one with this key; 0: it is not; null: the document has escapes of
 *   ASCII characters, or the number has more than nine digits, a fraction or an exponent, and this does not read it
 */
export function integerMember(body: Body, key: number): number | null {
  const value = shortIndex.integerMember(body, key)
  return value < 0 ? null : value
}

/** An array whose elements are read later. */
interface List {
  /** The records of the next element, and after the last one. */
  next: number
  last: number
  /** Reads the element that the cursor is at. */
  read: () => void
}

interface Later {
  /** Those of the element that is being read. */
  added: List[]
  /** The one that is read next is the last. */
  lists: List[]
}

/** What a reader adds to `steps` for an object that it makes. */
export const objectSteps = 8

/** Members with known keys that an object may have; those after them count as repeated. Real ones have at most 30. */
const maxMembers = 1000
/** Bytes of a string that is decoded, and of a number that is read; a longer string is taken as it was sent. Real ids have at most 200. */
export const longestText = 16 * 1024

/** A cursor, which is at one value at a time. When a `Read` function is called, the cursor is at its value, and it must leave it there. */
export class Scanner {
  /** The document as latin1: a character is a byte. */
  readonly text: string
  /** Whether any string may contain an escape of an ASCII character as `\u00XX`. */
  readonly asciiEscapes: boolean
  /** Work that was done: a member or an element counts as one, a long string as one for every 32 bytes. */
  steps = 0
  private readonly bytes: Buffer
  private readonly words: Int32Array
  /** Address of the document in `bytes`. */
  private readonly input: number
  /** The record of the value that the cursor is at. */
  private record: number
  /** Arrays that are read later; null: each array is read at once. */
  private readonly later: Later | null
  /** Bounds of the bytes that are not ASCII, and of the backslashes. */
  private readonly highFrom: number
  private readonly highTo: number
  private readonly slashFrom: number
  private readonly slashTo: number
  private readonly index: DocumentIndex
  private readonly windows: Windows | null

  /** `index` is that of `body`. `windows`: it was made in windows, and arrays are read by `readLists`. */
  constructor(body: Body, index: DocumentIndex, windows: Windows | null = null) {
    const { words, header } = index
    this.index = index
    this.windows = windows
    this.text = typeof body === 'string' ? body : body.toString('latin1')
    this.asciiEscapes = words[header + ASCII_ESCAPES] !== 0
    this.bytes = index.bytes
    this.words = words
    this.input = index.input
    this.record = index.root
    this.later = windows === null ? null : { added: [], lists: [] }
    this.highFrom = words[header + HIGH_FROM]!
    this.highTo = words[header + HIGH_TO]!
    this.slashFrom = words[header + SLASH_FROM]!
    this.slashTo = words[header + SLASH_TO]!
  }

  literals(): Literals {
    if (this.windows !== null) return this.windows.literals
    const literals = { positions: [], numbers: [] }
    this.index.addLiterals(literals)
    return literals
  }

  /** Reads elements of the arrays that were left for later, until `steps` more are done. True: all are read. */
  readLists(steps: number): boolean {
    const { later, words } = this
    if (later === null) return true
    const { added, lists } = later
    const end = this.steps + steps
    for (;;) {
      while (added.length > 0) lists.push(added.pop()!)
      const list = lists.at(-1)
      if (list === undefined) return true
      if (this.steps >= end) return false
      this.record = list.next
      list.next = words[list.next + NEXT]!
      if (list.next >= list.last) lists.pop()
      this.steps++
      list.read()
    }
  }

  /** The start and the end (exclusive) of the value. */
  get start(): number {
    return this.words[this.record + START]!
  }

  get end(): number {
    return this.words[this.record + END]!
  }

  /** The value as it was sent. */
  get source(): string {
    return this.text.slice(this.start, this.end)
  }

  get isObject(): boolean {
    return this.code === BRACE
  }

  get isArray(): boolean {
    return this.code === BRACKET
  }

  get isString(): boolean {
    return this.code === QUOTE
  }

  get isNumber(): boolean {
    const { code } = this
    return code === MINUS || (code >= ZERO && code <= NINE)
  }

  /** `null` counts as absent. */
  get isNull(): boolean {
    return this.code === NULL
  }

  /** The first byte of the value. */
  private get code(): number {
    return this.bytes[this.input + this.words[this.record + START]!]!
  }

  /**
   * Reads the members of the object at hand whose keys are in the table. A value that is not an object has none.
   *
   * @param into what the functions of the table are given
   */
  object<T>(table: KeyTable<T>, into: T): void {
    const { words, record } = this
    const { byNumber, reads } = table
    let seen = 0
    let count = 0
    for (let index = words[record + FIRST]!; index !== 0; index = words[index + SIBLING]!) {
      if (++count > maxMembers) {
        for (const key of table.keys) table.repeated?.(into, key)
        break
      }
      const key = words[index + KEY]!
      const member = key === escapedKey ? this.escapedMember(table, index) : byNumber[key]!
      if (member === -1) continue
      if ((seen & (1 << member)) !== 0) table.repeated?.(into, table.keys[member]!)
      seen |= 1 << member
      this.record = index
      reads[member]!(this, into)
    }
    this.record = record
    this.steps += count
  }

  private escapedMember<T>({ keys }: KeyTable<T>, record: number): number {
    const { bytes, words, input } = this
    const start = words[record + KEY_START]!
    let end = start + 1
    while (bytes[input + end] !== QUOTE) end += bytes[input + end] === BACKSLASH ? 2 : 1
    return keys.indexOf(this.decoded(start, end + 1))
  }

  /**
   * Reads the elements of the array at hand. A value that is not an array has none. In a long document they are read later, by
   * `readLists`, after this call has returned.
   *
   * @param element called for each, with the scanner at the element
   * @param into what `element` is given
   */
  array<T>(element: Read<T>, into: T): void {
    if (!this.isArray) return
    const { words, record, later } = this
    const last = words[record + NEXT]!
    if (later !== null) {
      const next = record + recordWords
      if (next < last) later.added.push({ next, last, read: () => element(this, into) })
      return
    }
    for (let index = record + recordWords; index < last; index = words[index + NEXT]!) {
      this.record = index
      element(this, into)
    }
    this.record = record
  }

  leaf(): Leaf {
    switch (this.code) {
      case QUOTE:
        return this.decoded(this.start, this.end)
      case BRACE:
      case BRACKET:
        return undefined
      case TRUE:
        return true
      case FALSE:
        return false
      case NULL:
        return null
      default:
        return this.number(this.start, this.end)
    }
  }

  private number(start: number, end: number): number {
    const { bytes, input } = this
    let value = 0
    // Most numbers have few digits: faster than a slice and Number().
    if (end - start < 10)
      for (let index = start; ; index++) {
        if (index === end) return value
        const code = bytes[input + index]!
        if (code < ZERO || code > NINE) break
        value = value * 10 + code - ZERO
      }
    // Infinite floors and durations are the safe ones.
    if (end - start > longestText) return Number.POSITIVE_INFINITY
    return Number(this.text.slice(start, end))
  }

  /** `start` and `end` include the quotes. */
  private decoded(start: number, end: number): string {
    const isOdd =
      (start < this.highTo && end > this.highFrom) || (start < this.slashTo && end > this.slashFrom)
    const { bytes, input } = this
    if (end - start > longestText) this.steps += (end - start) >> 5
    else if (isOdd && !this.isPlain(start + 1, end - 1))
      return JSON.parse(bytes.toString('utf8', input + start, input + end)) as string
    // A short slice is a copy.
    if (end - start < 15) return this.text.slice(start + 1, end - 1)
    return bytes.toString('latin1', input + start + 1, input + end - 1)
  }

  /** Whether a string is its own bytes: ASCII without escapes. */
  private isPlain(start: number, end: number): boolean {
    const { bytes, input } = this
    for (let index = input + start; index < input + end; index++)
      if (bytes[index]! > 126 || bytes[index] === BACKSLASH) return false
    return true
  }
}

/**
 * Copies a slice. In V8 a slice of 13 or more characters retains the whole body, and ids are kept for hours.
 *
 * @param slice of a body that is kept for longer than the body
 */
export const detach = (slice: string) => (slice.length < 13 ? slice : `${slice} `.slice(0, -1))
