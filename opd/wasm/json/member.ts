/**
 * The value of one member of the outermost object, without an index: for `tmax`, which is read of every request, also of those
 * whose response is no bid.
 */
import { equalBits, escapedBytes, escapesNext, parities } from './marks'

const quote: u32 = 0x22
/** Bytes that are compared with. They are loaded before a loop: a constant in it would be put together in each round. */
const marks = memory.data<u8>([0x22, 0x5c, 0x20, 0x7b, 0x7d])
/** `\u00`: how an ASCII character may be written. */
const asciiEscape: u32 = 0x3030755c

/** No positive integer. */
const none: i32 = 0
/** There are spellings that this module does not read. */
const unclear: i32 = -1

/** A number of more digits may be too large. */
const maxDigits: i32 = 9

/**
 * The value of the member whose key has these four characters, if it is a positive integer and the only one with this key.
 * `none`: it is not; `unclear`: the document has escapes of ASCII characters, or the number is no row of up to nine digits. A number
 * at the end of the document may be truncated, and does not count. The document may be malformed. Before it are zeros; `padding` bytes after it
 * become zeros.
 */
export function integerMember(input: usize, length: i32, key: u32): i32 {
  for (let after: usize = 0; after < padding; after += 8)
    store<u64>(input + <usize>length + after, 0)
  const last = lastKey(input, length, key)
  if (last === escaped) return unclear
  return last === absent ? none : integerUpTo(input, length, last, key)
}

/** Bytes that are read after the document. */
const padding: usize = 72

/** Instead of a position: the key is not in the document; or it may be, with escapes. */
const absent: i32 = -1
const escaped: i32 = -2

/** The position of the last string that is the key, by its last letter and the quote behind it. */
function lastKey(input: usize, length: i32, key: u32): i32 {
  const letters = i8x16.splat(<i8>(key >> 24))
  const quotes = v128.load8_splat(marks)
  const slashes = v128.load8_splat(marks + 1)
  let last = absent
  for (let offset = 0; offset < length; offset += 32) {
    const from = input + <usize>offset
    const a = v128.load(from)
    const b = v128.load(from, 16)
    const inA = v128.and(i8x16.eq(a, letters), i8x16.eq(v128.load(from, 1), quotes))
    const inB = v128.and(i8x16.eq(b, letters), i8x16.eq(v128.load(from, 17), quotes))
    if (v128.any_true(v128.or(inA, inB))) {
      let found = i8x16.bitmask(inA) | (i8x16.bitmask(inB) << 16)
      for (; found !== 0; found &= found - 1) {
        const start = offset + ctz(found) - 4
        if (isKeyAt(input + start, key)) last = start
      }
    }
    const slashA = i8x16.eq(a, slashes)
    const slashB = i8x16.eq(b, slashes)
    if (v128.any_true(v128.or(slashA, slashB))) {
      let found = i8x16.bitmask(slashA) | (i8x16.bitmask(slashB) << 16)
      for (; found !== 0; found &= found - 1)
        if (load<u32>(from + <usize>ctz(found)) === asciiEscape) return escaped
    }
  }
  return last
}

function isKeyAt(offset: usize, key: u32): bool {
  return load<u8>(offset) === quote && load<u32>(offset, 1) === key && load<u8>(offset, 5) === quote
}

/** Reads the document up to the last string that may be the key, 64 bytes at a time. */
function integerUpTo(input: usize, length: i32, last: i32, key: u32): i32 {
  const letters = i8x16.splat(<i8>(key >> 24))
  const quotes = v128.load8_splat(marks)
  const slashes = v128.load8_splat(marks + 1)
  const bit = v128.load8_splat(marks + 2)
  const opening = v128.load8_splat(marks + 3)
  const closing = v128.load8_splat(marks + 4)
  let value = none
  let times = 0
  let depth = 0
  let inString: u64 = 0
  let escaped: u64 = 0
  for (let offset = 0; offset <= last + 4; offset += 64) {
    const from = input + <usize>offset
    let a = v128.load(from)
    let b = v128.load(from, 16)
    let c = v128.load(from, 32)
    let d = v128.load(from, 48)
    let ends = equalBits(a, b, c, d, quotes)
    const backslashes = equalBits(a, b, c, d, slashes)
    if ((backslashes | escaped) !== 0) {
      ends &= ~escapedBytes(backslashes, escaped)
      escaped = escapesNext(backslashes, escaped)
    }
    const strings = parities(ends) ^ inString
    inString = <u64>(<i64>strings >> 63)
    // The last letters of strings that may be the key: their quotes may be in the next block.
    let found = strings & equalBits(a, b, c, d, letters)
    // `[` and `{`, and `]` and `}`, differ in the bit 0x20.
    a = v128.or(a, bit)
    b = v128.or(b, bit)
    c = v128.or(c, bit)
    d = v128.or(d, bit)
    const opens = ~strings & equalBits(a, b, c, d, opening)
    const closes = ~strings & equalBits(a, b, c, d, closing)
    for (; found !== 0; found &= found - 1) {
      const place = ctz(found)
      const start = offset + <i32>place - 4
      if (!isKeyAt(input + start, key) || !follows(input, start)) continue
      const before = ((<u64>1) << place) - 1
      if (depth + <i32>popcnt(opens & before) - <i32>popcnt(closes & before) !== 1) continue
      if (++times > 1) return none
      value = integerAfter(input, start + 6, length)
      if (value === unclear) return unclear
    }
    depth += <i32>popcnt(opens) - <i32>popcnt(closes)
  }
  return value
}

/** Whether a string that begins here is a key: an object begins before it, or another member or element ends. */
function follows(input: usize, start: i32): bool {
  do start--
  while (start >= 0 && load<u8>(input + <usize>start) <= 0x20)
  const code: u32 = load<u8>(input + start)
  return code === 0x7b || code === 0x2c
}

function skipSpace(input: usize, from: i32, length: i32): i32 {
  while (from < length && load<u8>(input + <usize>from) <= 0x20) from++
  return from
}

/** The positive integer after a key and its colon. */
function integerAfter(input: usize, from: i32, length: i32): i32 {
  from = skipSpace(input, from, length)
  if (load<u8>(input + <usize>from) !== 0x3a) return none
  from = skipSpace(input, from + 1, length)
  const first = from
  let value = 0
  let code: u32 = load<u8>(input + <usize>from)
  for (; code - 0x30 < 10; code = load<u8>(input + <usize>from)) {
    if (from - first === maxDigits) return unclear
    value = value * 10 + <i32>(code - 0x30)
    from++
  }
  if (from === first || from >= length) return none
  // `.`, `e`, `E`
  if (code === 0x2e || (code | 0x20) === 0x65) return unclear
  const isWhole = code !== 0x2b && code !== 0x2d
  const isCanonical = load<u8>(input + <usize>first) !== 0x30
  return isWhole && isCanonical ? value : none
}
