/**
 * The index of a JSON document, made by a WebAssembly module (opd/wasm/json). The module finds the members with known keys, so
 * that a reader visits no others, and literals (the macros), in strings or not.
 */
import { code } from './index-module.ts'

/** A document: its bytes, or the same as latin1 text, a character for each byte. */
export type Body = Buffer | string

// The types of Node.js have none for WebAssembly.
interface Memory {
  buffer: ArrayBuffer
  grow(pages: number): number
}
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
}

/** Layout of the index: opd/json/scanner.ts. */
const headerWords = 6
const FOUND_END = 5
export const recordWords = 7
const recordBytes = 4 * recordWords

interface Indexer {
  memory: Memory
  /** Addresses of the tables of known keys and literals. */
  keys: { value: number }
  literals: { value: number }
  /** The address of the next record. */
  nextRecord: { value: number }
  /** 0: malformed; 1: the next window follows; 2: complete. */
  index(
    input: number,
    start: number,
    end: number,
    length: number,
    marks: number,
    found: number,
    out: number,
  ): number
  integerMember(input: number, length: number, key: number): number
}

const malformed = 0
const complete = 2

const module = new WebAssembly.Module(Buffer.from(code, 'base64'))
const indexers: Indexer[] = []

/** The first pass reads and writes whole blocks, so more than the document. */
const padding = 192
const pageLength = 64 * 1024
/** Addresses below this one are those of the module's own data. */
const dataEnd = pageLength
const shortestLiteral = 8

/** The position and the number of each literal of a document, in ascending order. */
export interface Literals {
  positions: number[]
  numbers: number[]
}

/** The index of one document at a time. Its memory grows with the longest document, and is kept. */
export class DocumentIndex {
  /** The module's memory, as bytes and as words. They are replaced when it grows. */
  bytes = Buffer.alloc(0)
  words = new Int32Array()
  /** Address of the document. */
  input = 0
  /** The literals that were found in the document, or in the last window, begin here in `words`. */
  found = 0
  /** Position of the index in `words`, and of the record of the whole document. */
  header = 0
  root = 0
  private readonly indexer: Indexer
  private marks = 0
  /** The longest document that fits. */
  private capacity = 0

  constructor() {
    this.indexer = new WebAssembly.Instance(module).exports as Indexer
    indexers.push(this.indexer)
    writeTables(this.indexer)
  }

  /**
   * Indexes a whole document. False: it is not JSON in UTF-8 (RFC 8259), is nested deeper than 1,000, or is longer than
   * 128 MiB. The index is valid until the next call.
   */
  indexWhole(body: Body): boolean {
    const { length } = body
    if (length === 0 || !this.put(body)) return false
    const { input, marks, found, header } = this
    return (
      this.indexer.index(input, 0, length, length, marks, found << 2, header << 2) !== malformed
    )
  }

  /** `integerMember` of opd/json/scanner.ts; -1: it cannot be read. The index is no longer valid. */
  integerMember(body: Body, key: number): number {
    if (!this.put(body)) return -1
    return this.indexer.integerMember(this.input, body.length, key)
  }

  /** Copies a document to the memory of the module. False: there is not enough of it. */
  private put(body: Body): boolean {
    if (body.length > this.capacity && !this.reserve(body.length)) return false
    if (typeof body === 'string') this.bytes.write(body, this.input, 'latin1')
    else this.bytes.set(body, this.input)
    return true
  }

  /** Reserves 20 times the length of address space, of which most documents use little. False: there is not enough memory. */
  private reserve(length: number): boolean {
    const wanted = Math.max(pageLength, 2 ** Math.ceil(Math.log2(length)))
    this.place(wanted, wanted)
    // A value takes two bytes or more with its comma or brackets, but for those that are still open: 1,000 at most.
    if (!this.grow(4 * this.root + recordBytes * (wanted / 2 + 1024))) return false
    this.bytes.fill(0, this.input - padding, this.input)
    this.capacity = wanted
    return true
  }

  /** Places the areas of the memory for a document, with marks and literals of `window` bytes. */
  private place(length: number, window: number): void {
    // A literal takes eight bytes or more in the document, and eight here.
    const afterFound = dataEnd + Math.ceil(window / 8) * 8
    const afterMarks = afterFound + 4 * (window + padding)
    const records = afterMarks + padding + Math.ceil(length / 8) * 8 + padding
    this.found = dataEnd >> 2
    this.marks = afterFound
    // `padding` zeros are before the document.
    this.input = afterMarks + padding
    this.header = records >> 2
    this.root = this.header + headerWords
  }

  /** False: there is not enough memory for so many bytes. */
  private grow(bytes: number): boolean {
    const { memory } = this.indexer
    const missing = bytes - memory.buffer.byteLength
    try {
      if (missing > 0) memory.grow(Math.ceil(missing / pageLength))
    } catch {
      return false
    }
    if (this.bytes.buffer !== memory.buffer) {
      this.bytes = Buffer.from(memory.buffer)
      this.words = new Int32Array(memory.buffer)
    }
    return true
  }

  /** Bytes of its memory. */
  get size(): number {
    return this.indexer.memory.buffer.byteLength
  }

  /** The literals of the document, or of the last window, are appended to `found`. */
  addLiterals({ positions, numbers }: Literals): void {
    const { words, header, found } = this
    const end = words[header + FOUND_END]!
    for (let index = found; index < end; index += 2) {
      positions.push(words[index]!)
      numbers.push(words[index + 1]!)
    }
  }

  /**
   * Indexes a document in windows. Call `next` until it returns another value than `more`. `mayGrow` is asked before the
   * memory grows by a number of bytes.
   */
  windows(body: Buffer, mayGrow: (bytes: number) => boolean): Windows {
    this.capacity = 0
    this.place(body.length, windowLength + lookAhead)
    return new Windows(this, body, mayGrow)
  }

  /** Indexes one window; see `Windows`. */
  window(body: Buffer, start: number, end: number, mayGrow: (bytes: number) => boolean): number {
    const { nextRecord } = this.indexer
    const records = start === 0 ? 4 * this.root : nextRecord.value
    // Each mark is at most one value.
    const needed = records + recordBytes * (end - start + lookAhead)
    if (needed > this.size && !mayGrow(needed - this.size)) return outOfMemory
    if (!this.grow(needed)) return outOfMemory
    const { input, marks, found, header, bytes } = this
    const copied = start === 0 ? 0 : Math.min(body.length, start + padding)
    bytes.set(body.subarray(copied, Math.min(body.length, end + padding)), input + copied)
    if (start === 0) bytes.fill(0, input - padding, input)
    return this.indexer.index(input, start, end, body.length, marks, found << 2, header << 2)
  }
}

const outOfMemory = -1
/** Bytes of a window: it takes 0.1 to 0.3 ms. */
const windowLength = 64 * 1024
/** Marks that may wait for the next window: opd/wasm/json/index.ts. */
const lookAhead = 1024

/** A document that is indexed in windows. */
export class Windows {
  /** Those of the windows so far. */
  readonly literals: Literals = { positions: [], numbers: [] }
  private readonly index: DocumentIndex
  private readonly body: Buffer
  private readonly mayGrow: (bytes: number) => boolean
  private start = 0

  constructor(index: DocumentIndex, body: Buffer, mayGrow: (bytes: number) => boolean) {
    this.index = index
    this.body = body
    this.mayGrow = mayGrow
  }

  next(): 'more' | 'complete' | 'malformed' | 'too_large' {
    const { index, body, start } = this
    const end = Math.min(body.length, start + windowLength)
    if (end === start) return 'malformed'
    const result = index.window(body, start, end, this.mayGrow)
    this.start = end
    if (result === outOfMemory) return 'too_large'
    if (result === malformed) return 'malformed'
    index.addLiterals(this.literals)
    return result === complete ? 'complete' : 'more'
  }
}

/** Layout of the keys: opd/wasm/json/index.ts. */
const keySlots = 256
const slotBytes = 20
const keyBytes = 16
/** Half of the slots: most unknown keys then find an empty one at once. */
const maxKeys = 128
/** The number of every key that is written with escapes. */
export const escapedKey = 255
const isKey = /^[!#-[\]-~]{1,16}$/

const numbers = new Map<string, number>()
const keyTable = Buffer.alloc(keySlots * slotBytes)

/** The number of a key, assigned at the first call. Throws a RangeError if it cannot be indexed, or if all numbers are taken. */
export function keyNumber(key: string): number {
  const known = numbers.get(key)
  if (known !== undefined) return known
  if (!isKey.test(key) || numbers.size === maxKeys)
    throw new RangeError(`a key that cannot be indexed: ${key}`)
  const number = numbers.size + 1
  numbers.set(key, number)
  const padded = Buffer.alloc(keyBytes)
  padded.write(key, 'latin1')
  const mixed = padded.readInt32LE(0) ^ (padded.readInt32LE(4) << 3) ^ (key.length << 11)
  let slot = Math.imul(mixed, 0x9e3779b1) >>> 24
  const numberAt = (record: number) => record * slotBytes + keyBytes
  while (keyTable[numberAt(slot)] !== 0) slot = (slot + 1) % keySlots
  keyTable.set(padded, slot * slotBytes)
  keyTable[numberAt(slot)] = number
  for (const indexer of indexers) writeTables(indexer)
  return number
}

/** Layout of the literals: opd/wasm/json/marks.ts. */
const maxLiterals = 7
const maxLiteralBytes = 32
/** Bytes that all literals begin with. */
const sharedBytes = 4

const literalTexts: string[] = []
const literalTable = Buffer.alloc(2 * maxLiteralBytes * (maxLiterals + 1))

/**
 * The number of a literal: its place in the order of calls, from 1.
 *
 * @param literal text that the index marks where a string contains it; it begins with `$`, as all others do
 * @throws RangeError if all numbers are taken, or if the literal is too short, too long, or does not begin as the others
 */
export function literalNumber(literal: string): number {
  const { length } = literal
  const start = (literalTexts[0] ?? literal).slice(0, sharedBytes)
  const fits =
    length >= shortestLiteral && length <= maxLiteralBytes && literalTexts.length < maxLiterals
  if (!fits || !literal.startsWith(start) || start[0] !== '$')
    throw new RangeError(`a literal that cannot be indexed: ${literal}`)
  const slot = Buffer.alloc(2 * maxLiteralBytes)
  slot.write(literal, 'latin1')
  slot.fill(0xff, maxLiteralBytes, maxLiteralBytes + length)
  literalTable.set(slot, literalTexts.length * slot.length)
  for (const indexer of indexers) writeTables(indexer)
  return literalTexts.push(literal)
}

function writeTables({ memory, keys, literals }: Indexer): void {
  const bytes = new Uint8Array(memory.buffer)
  bytes.set(keyTable, keys.value)
  bytes.set(literalTable, literals.value)
}
