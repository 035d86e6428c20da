/**
 * The index of the last JSON document, made by a WebAssembly module (opd/json/wasm). The module finds the members with known
 * keys, so that a reader visits no others, and literals (the macros), in strings or not.
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
export const recordWords = 7

interface Indexer {
  memory: Memory
  /** Addresses of the tables of known keys and literals. */
  keys: { value: number }
  literals: { value: number }
  /** 0: malformed. */
  index(input: number, length: number, marks: number, found: number, out: number): number
}

const { index, memory, keys, literals } = new WebAssembly.Instance(
  new WebAssembly.Module(Buffer.from(code, 'base64')),
).exports as Indexer

/** Address of the document. The module's own data are before it. */
export const input = 64 * 1024
/** The first pass reads and writes whole blocks, so more than the document. */
const padding = 192
const pageLength = 64 * 1024

let capacity = 0
let marks = 0
/** The literals of the document in `words`: the position and the number of each. */
export let found = 0
/** The module's memory, as bytes and as words. The document is at `input`. A longer document replaces both. */
export let bytes = Buffer.alloc(0)
export let words = new Int32Array()
/** Position of the index in `words`, and of the record of the whole document. */
export let header = 0
export let root = 0

/** Reserves 20 times the length of address space, of which most documents use little. False: there is not enough memory. */
function reserve(length: number): boolean {
  const wanted = Math.max(pageLength, 2 ** Math.ceil(Math.log2(length)))
  const afterInput = input + wanted + padding
  const afterMarks = afterInput + 4 * (wanted + padding)
  // A literal takes eight bytes or more.
  const records = afterMarks + wanted
  // A value takes two bytes or more with its comma or brackets, but for those that are still open: 1,000 at most.
  const end = records + 4 * (headerWords + recordWords * (wanted / 2 + 1024))
  try {
    memory.grow(Math.ceil((end - memory.buffer.byteLength) / pageLength))
  } catch {
    return false
  }
  bytes = Buffer.from(memory.buffer)
  words = new Int32Array(memory.buffer)
  marks = afterInput
  found = afterMarks >> 2
  header = records >> 2
  root = header + headerWords
  capacity = wanted
  return true
}

/**
 * False: the document is not JSON in UTF-8 (RFC 8259), is nested deeper than 1,000, or is longer than 128 MiB. The index is
 * valid until the next call.
 */
export function indexDocument(body: Body): boolean {
  const { length } = body
  if (length === 0 || (length > capacity && !reserve(length))) return false
  if (typeof body === 'string') bytes.write(body, input, 'latin1')
  else bytes.set(body, input)
  return index(input, length, marks, found << 2, header << 2) !== 0
}

/** Layout of the keys: opd/json/wasm/assembly/index.ts. */
const keySlots = 256
const slotBytes = 20
const keyBytes = 16
/** Half of the slots: most unknown keys then find an empty one at once. */
const maxKeys = 128
/** The number of every key that is written with escapes. */
export const escapedKey = 255
const isKey = /^[!#-[\]-~]{1,16}$/

const numbers = new Map<string, number>()

/** The number of a key, assigned at the first call. Throws a RangeError if it cannot be indexed, or if all numbers are taken. */
export function keyNumber(key: string): number {
  const known = numbers.get(key)
  if (known !== undefined) return known
  if (!isKey.test(key) || numbers.size === maxKeys)
    throw new RangeError(`a key that cannot be indexed: ${key}`)
  const number = numbers.size + 1
  numbers.set(key, number)
  const table = new Uint8Array(memory.buffer, keys.value)
  const padded = Buffer.alloc(keyBytes)
  padded.write(key, 'latin1')
  const mixed = padded.readInt32LE(0) ^ (padded.readInt32LE(4) << 3) ^ (key.length << 11)
  let slot = Math.imul(mixed, 0x9e3779b1) >>> 24
  const numberAt = (at: number) => at * slotBytes + keyBytes
  while (table[numberAt(slot)] !== 0) slot = (slot + 1) % keySlots
  table.set(padded, slot * slotBytes)
  table[numberAt(slot)] = number
  return number
}

/** Layout of the literals: opd/json/wasm/assembly/marks.ts. */
const maxLiterals = 7
const maxLiteralBytes = 32
/** Bytes that all literals begin with. */
const sharedBytes = 4

const literalTexts: string[] = []

/**
 * The number of a literal: its place in the order of calls, from 1. Throws a RangeError if all numbers are taken, or if the
 * literal is too short, too long, or does not begin as the others.
 */
export function literalNumber(literal: string): number {
  const { length } = literal
  const start = (literalTexts[0] ?? literal).slice(0, sharedBytes)
  const fits = length >= 8 && length <= maxLiteralBytes && literalTexts.length < maxLiterals
  if (!fits || !literal.startsWith(start) || start[0] !== '$')
    throw new RangeError(`a literal that cannot be indexed: ${literal}`)
  const slot = Buffer.alloc(2 * maxLiteralBytes)
  slot.write(literal, 'latin1')
  slot.fill(0xff, maxLiteralBytes, maxLiteralBytes + length)
  new Uint8Array(memory.buffer, literals.value).set(slot, literalTexts.length * slot.length)
  return literalTexts.push(literal)
}
