/**
 * Indexes a JSON document (RFC 8259): validates all of it, and writes one record for each value that may be read, so that a
 * reader visits the values that it needs and passes over all others. A value below an unknown key has none. The layout of a
 * record is in opd/json/scanner.ts.
 */
import { asciiEscapes, foundEnd, highFrom, highTo, mark, slashFrom, slashTo } from './marks'

export { literals } from './marks'
export { integerMember } from './member'

/** Deeper nesting is rejected. */
const maxDepth: i32 = 1000
const recordBytes: usize = 28
const headerBytes: usize = 24

/**
 * The keys that are read of any object: a hash table of 256 slots, written by opd/json/document-index.ts. A slot is the key in 16
 * bytes, padded with zeros, and its number, which is not 0.
 */
export const keys: usize = memory.data(256 * 20, 16)
/** The number of a key that is written with escapes, whatever it is. */
const escapedKey: i32 = 255

const slotBytes: usize = 20
/** From here less the length of a key: a mask of its bytes. */
const masks = memory.data<u8>([
  255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0,
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
])

/** The number of the key of `length` bytes at `offset`; 0: not one that is read. Strings have no control characters. */
function keyOf(offset: usize, length: i32): i32 {
  if (length > 16) return 0
  const key = v128.and(v128.load(offset), v128.load(masks + 16 - <usize>length))
  const start = <u64>i64x2.extract_lane(key, 0)
  // As in opd/json/document-index.ts.
  const mixed = <u32>start ^ ((<u32>(start >> 32)) << 3) ^ ((<u32>length) << 11)
  let slot: usize = (mixed * 0x9e3779b1) >> 24
  while (true) {
    const from = keys + slot * slotBytes
    const number = load<i32>(from, 16)
    if (number === 0) return 0
    if (!v128.any_true(v128.xor(key, v128.load(from)))) return number
    slot = (slot + 1) & 255
  }
}

/** Of each open array or object: its record, plus `isObject` and `isRead`; and `tail`. */
const stack = memory.data(8192)
const isObject: usize = 1
/** Its members may be read: the key of each object around it is a known one. */
const isRead: usize = 2
const flags: usize = isObject | isRead

function isSpace(code: u32): bool {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}

function skipSpace(input: usize, from: i32, to: i32): i32 {
  const start = from
  while (from < to && isSpace(load<u8>(input + <usize>from))) {
    from++
    if (from - start === 64) return skipBlanks(input, from, to)
  }
  return from
}

/** The same, sixteen bytes at a time: a document may be megabytes of white space. */
function skipBlanks(input: usize, from: i32, to: i32): i32 {
  while (from + 16 <= to && isBlank(input + <usize>from)) from += 16
  while (from < to && isSpace(load<u8>(input + <usize>from))) from++
  return from
}

/** Whether sixteen bytes are white space. */
function isBlank(offset: usize): bool {
  const bytes = v128.load(offset)
  const blanks = v128.or(
    v128.or(i8x16.eq(bytes, i8x16.splat(0x20)), i8x16.eq(bytes, i8x16.splat(0x0a))),
    v128.or(i8x16.eq(bytes, i8x16.splat(0x0d)), i8x16.eq(bytes, i8x16.splat(0x09))),
  )
  return i8x16.all_true(blanks)
}

function isDigit(code: u32): bool {
  return code - 0x30 < 10
}

function digits(offset: usize): usize {
  if (!isDigit(load<u8>(offset))) return 0
  do offset++
  while (isDigit(load<u8>(offset)))
  return offset
}

/** The end of a number; 0: malformed. */
function numberEnd(offset: usize): usize {
  let code: u32 = load<u8>(offset)
  if (code === 0x2d) code = load<u8>(++offset)
  if (code === 0x30) offset++
  else {
    offset = digits(offset)
    if (offset === 0) return 0
  }
  code = load<u8>(offset)
  if (code === 0x2e) {
    offset = digits(offset + 1)
    if (offset === 0) return 0
    code = load<u8>(offset)
  }
  if ((code | 0x20) !== 0x65) return offset
  code = load<u8>(offset, 1)
  return digits(code === 0x2b || code === 0x2d ? offset + 2 : offset + 1)
}

/** The end of a number, true, false or null; 0: malformed. */
function scalarEnd(offset: usize): usize {
  const code: u32 = load<u8>(offset)
  if (code === 0x2d || isDigit(code)) return numberEnd(offset)
  const word = load<u32>(offset)
  if (word === 0x65757274 || word === 0x6c6c756e) return offset + 4
  return word === 0x736c6166 && load<u8>(offset, 4) === 0x65 ? offset + 5 : 0
}

/** Whether only white space is between two positions. */
function isGap(input: usize, from: i32, to: i32): bool {
  return from === to || skipSpace(input, from, to) === to
}

/** Quotes, and sixteen characters as `\u0000`. */
const longestKey: i32 = 2 + 16 * 6

/** Whether a key, its quotes included, is written with an escape, and may be one that is read. */
function hasEscape(input: usize, from: i32, to: i32): bool {
  if (from >= slashTo || to <= slashFrom || to - from > longestKey) return false
  for (; from < to; from++) if (load<u8>(input + <usize>from) === 0x5c) return true
  return false
}

/** Takes the place of the record of a value that is not read. */
const unread = memory.data(28, 16)

/** The state of the second pass at the end of a window. The position after the last token: */
let position: i32 = 0
let openArrays: usize = 0
let openState: usize = isRead
let openParent: usize = 0
let openTail: usize = 0
/** The next record, and the next mark to be read. */
export let nextRecord: usize = 0
let nextMark: usize = 0
let endOfMarks: usize = 0

const malformed: i32 = 0
const paused: i32 = 1
const complete: i32 = 2

/**
 * Second pass: grammar, and the records, from `nextMark`. It pauses before a value at or behind `pause`. `last`: the mark of
 * the end of the document.
 */
function build(input: usize, last: usize, pause: usize): i32 {
  let marks = nextMark
  let next = nextRecord
  /** The position after the last token. */
  let from = position
  let depth = openArrays
  /** Of the open array or object. */
  let state = openState
  let parent = openParent
  /** Where the next member with a known key is linked. */
  let tail = openTail
  while (true) {
    if (marks >= pause) {
      nextMark = marks
      nextRecord = next
      position = from
      openArrays = depth
      openState = state
      openParent = parent
      openTail = tail
      return paused
    }
    let offset = load<i32>(marks)
    let read = (state & isRead) !== 0
    if ((state & isObject) !== 0) {
      if (load<u8>(input + <usize>offset) !== 0x22 || !isGap(input, from, offset)) return malformed
      const end = load<i32>(marks, 4) + 1
      const colon = load<i32>(marks, 8)
      if (load<u8>(input + <usize>colon) !== 0x3a || !isGap(input, end, colon)) return malformed
      if (read) {
        let key = keyOf(input + <usize>offset + 1, end - offset - 2)
        if (key === 0 && hasEscape(input, offset, end)) key = escapedKey
        if (key === 0) read = false
        else {
          store<i32>(next, offset)
          store<i32>(next, key, 4)
          store<i32>(tail, <i32>(next >> 2))
          tail = next + 20
        }
      }
      from = colon + 1
      marks += 12
      offset = load<i32>(marks)
    }
    // Without a branch, which would be mispredicted at every other member.
    const record = select<usize>(next, unread, read)
    next += select<usize>(recordBytes, 0, read)
    store<i32>(record, <i32>(next >> 2), 16)
    store<i64>(record, 0, 20)
    const start = offset === from ? offset : skipSpace(input, from, offset)
    store<i32>(record, start, 8)
    const code: u32 = load<u8>(input + <usize>offset)
    if (start !== offset) {
      const end = scalarEnd(input + <usize>start)
      if (end === 0) return malformed
      from = <i32>(end - input)
      store<i32>(record, from, 12)
    } else if (code === 0x22) {
      from = load<i32>(marks, 4) + 1
      store<i32>(record, from, 12)
      marks += 8
    } else if (code === 0x7b || code === 0x5b) {
      if (depth === maxDepth) return malformed
      store<usize>(stack + (depth << 3), parent | state)
      store<usize>(stack + (depth << 3), tail, 4)
      depth++
      parent = record
      tail = record + 24
      state = (code === 0x7b ? isObject : 0) | (read ? isRead : 0)
      from = offset + 1
      marks += 4
      offset = load<i32>(marks)
      // A bracket that closes is two above the one that opens.
      if (load<u8>(input + <usize>offset) !== code + 2 || !isGap(input, from, offset)) continue
    } else return malformed
    // After a value. At most `maxDepth` brackets close.
    while (true) {
      offset = load<i32>(marks)
      if (!isGap(input, from, offset)) return malformed
      if (depth === 0) {
        nextRecord = next
        return marks === last ? complete : malformed
      }
      from = offset + 1
      marks += 4
      const token: u32 = load<u8>(input + <usize>offset)
      if (token === 0x2c) break
      if (token !== ((state & isObject) !== 0 ? 0x7d : 0x5d)) return malformed
      store<i32>(parent, from, 12)
      store<i32>(parent, <i32>(next >> 2), 16)
      depth--
      parent = load<usize>(stack + (depth << 3))
      tail = load<usize>(stack + (depth << 3), 4)
      state = parent & flags
      parent &= ~flags
    }
  }
}

function begin(marks: usize, records: usize): void {
  nextMark = marks
  endOfMarks = marks
  nextRecord = records
  position = 0
  openArrays = 0
  openState = isRead
  openParent = 0
  openTail = 0
}

/** The marks that a value and the brackets after it may take: with a key seven, and one for each bracket. */
const lookAhead: usize = 4 * (<usize>maxDepth + 8)

/**
 * Indexes the window from `start` up to `end` of a document of `length` bytes. Both are multiples of 64, or the length. The
 * header is written to `out`, the records follow it. The marks that were not needed yet are moved to `marks` before those of
 * the window. Returns `malformed`, `paused`, or after the last window `complete`.
 */
export function index(
  input: usize,
  start: i32,
  end: i32,
  length: i32,
  marks: usize,
  found: usize,
  out: usize,
): i32 {
  if (start === 0) begin(marks, out + headerBytes)
  const left = endOfMarks - nextMark
  if (left !== 0) memory.copy(marks, nextMark, left)
  nextMark = marks
  endOfMarks = mark(input, start, end, length, marks + left, found)
  if (endOfMarks === 0) return malformed
  const isLast = end === length
  store<i32>(out, highFrom)
  store<i32>(out, highTo, 4)
  store<i32>(out, slashFrom, 8)
  store<i32>(out, slashTo, 12)
  store<i32>(out, <i32>asciiEscapes, 16)
  store<i32>(out, <i32>(foundEnd >> 2), 20)
  if (isLast) return build(input, endOfMarks, usize.MAX_VALUE)
  return endOfMarks > marks + lookAhead ? build(input, endOfMarks, endOfMarks - lookAhead) : paused
}
