/**
 * The memory of the WebAssembly module that indexes JSON documents (opd/json/wasm). It has the index of one document,
 * the last one. Without WebAssembly SIMD no document is indexed.
 */
import { code } from './index-module.ts'
import type { Body } from './types.ts'

// The types of Node.js have none for WebAssembly.
interface Memory {
  buffer: ArrayBuffer
  grow(pages: number): number
}
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
}

/** A record of a value: the offsets of its fields in 32-bit words. Of a member with a known key: where the key is, and its number. */
export const KEY_START = 0
export const KEY = 1
export const START = 2
export const END = 3
/** The record after the value: that of an array follows its elements. */
export const NEXT = 4
/** Of a member with a known key: the next such member of its object; 0: none. */
export const SIBLING = 5
/** Of an object: its first member with a known key; 0: none. It is also 0 if the object is below an unknown key. */
export const FIRST = 6
export const recordWords = 7

/**
 * The first words of an index: bounds of bytes that are not ASCII, bounds of backslashes, whether any `\u00` is there, and the
 * end of the literals in `words`.
 */
export const HIGH_FROM = 0
export const HIGH_TO = 1
export const SLASH_FROM = 2
export const SLASH_TO = 3
export const ASCII_ESCAPES = 4
export const FOUND_END = 5
const headerWords = 6

interface Indexer {
  memory: Memory
  /** Where the known keys and the literals are. */
  keys: { value: number }
  literals: { value: number }
  /** 0: malformed. */
  index(input: number, length: number, marks: number, found: number, out: number): number
}

/** The module's own data come before. */
export const input = 64 * 1024
/** The first pass reads, and writes, more than the document: whole blocks. */
const padding = 192
/** Longer documents are left to the reference: the index takes up to 19 times the length of its document. */
const maxLength = 1024 * 1024
const pageLength = 64 * 1024

function instantiate(): Indexer | null {
  try {
    const module = new WebAssembly.Module(Buffer.from(code, 'base64'))
    return new WebAssembly.Instance(module).exports as Indexer
  } catch {
    // No WebAssembly, as with --jitless, or no SIMD.
    return null
  }
}

const indexer = instantiate()

/** The memory from the known keys (known-keys.ts) or the literals (literals.ts) on; null: no document is indexed. */
export const memoryOf = (part: 'keys' | 'literals'): Uint8Array | null =>
  indexer === null ? null : new Uint8Array(indexer.memory.buffer, indexer[part].value)

let capacity = 0
let marks = 0
/** The literals of the document in `words`: the position and the number of each. */
export let found = 0
/** The memory, as bytes with the document at `input`, and as words. A longer document replaces them. */
export let bytes = Buffer.alloc(0)
export let words = new Int32Array()
/** Position of the index in `words`, and of the record of the whole document. */
export let header = 0
export let root = 0
let indexed: Body | null = null

/** False: there is no memory for the index. */
function reserve(memory: Memory, length: number): boolean {
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

/** False: the document is malformed (an empty one is), or it is too long. The index is valid until the next call. */
export function indexDocument(body: Body): boolean {
  const { length } = body
  if (indexer === null || length === 0 || length > maxLength) return false
  if (length > capacity && !reserve(indexer.memory, length)) return false
  indexed = null
  if (typeof body === 'string') bytes.write(body, input, 'latin1')
  else bytes.set(body, input)
  if (indexer.index(input, length, marks, found << 2, header << 2) === 0) return false
  indexed = body
  return true
}

/** Indexes the document again if another one was indexed since. */
export const ensureIndexed = (body: Body): boolean => indexed === body || indexDocument(body)
