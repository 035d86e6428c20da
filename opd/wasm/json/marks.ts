/**
 * First pass: the positions of quotes that begin or end a string, and of brackets, commas and colons outside strings.
 * 64 bytes at a time, a whole document or a window of it. It rejects bytes that are not UTF-8, control characters in strings, unknown escapes, and a string
 * without an end. Before the input are zeros; `padding` bytes after it become zeros.
 */
import { invalidUtf8 } from './utf8'

const block = 64
/** The rest of the last block, and what the second pass reads after the input. */
const padding = 72

/**
 * Texts that are looked for in the whole document, written by opd/json/document-index.ts: eight slots of 32 bytes and a mask of them.
 * All begin with the same four bytes, of which the first is `$`. An empty slot ends them.
 */
export const literals: usize = memory.data(8 * 64, 16)

const slotBytes: usize = 64

/** The number, from 1, of the one that begins at `offset`; 0: none. */
function literalAt(offset: usize): i32 {
  if (load<u32>(offset) !== load<u32>(literals)) return 0
  const start = v128.load(offset)
  const rest = v128.load(offset, 16)
  let number = 1
  for (let from = literals; load<u8>(from) !== 0; from += slotBytes) {
    const inStart = v128.and(v128.xor(start, v128.load(from)), v128.load(from, 32))
    const inRest = v128.and(v128.xor(rest, v128.load(from, 16)), v128.load(from, 48))
    if (!v128.any_true(v128.or(inStart, inRest))) return number
    number++
  }
  return 0
}

/** Of the document: bounds of the blocks with bytes that are not ASCII, and with backslashes. Empty: from > to. */
export let highFrom: i32 = 0
export let highTo: i32 = 0
export let slashFrom: i32 = 0
export let slashTo: i32 = 0
/** Of the document: whether a string has an escape that begins with `\u00`. */
export let asciiEscapes = false
/** Of the last window: the end of the literals that were found. */
export let foundEnd: usize = 0

/** The state at the end of the last window. */
let lastInString: u64 = 0
let lastEscaped: u64 = 0
let lastWasHigh = false

/** By byte: 1 if a backslash may precede it. Not `u`. */
const escapes = memory.data(256)
/** By byte: 1 for a hex digit. */
const hex = memory.data(256)

for (let code: usize = 48; code < 58; code++) store<u8>(hex + code, 1)
for (let code: usize = 65; code < 71; code++) {
  store<u8>(hex + code, 1)
  store<u8>(hex + code + 32, 1)
}
// " / \ b f n r t
const letters = memory.data<u8>([0x22, 0x2f, 0x5c, 0x62, 0x66, 0x6e, 0x72, 0x74])
for (let n: usize = 0; n < 8; n++) store<u8>(escapes + <usize>load<u8>(letters + n), 1)

/** Whether the byte at `offset`, which follows a backslash, is a valid escape. */
function isEscape(offset: usize): bool {
  const code: usize = load<u8>(offset)
  if (load<u8>(escapes + code) !== 0) return true
  // `u00`
  if ((load<u32>(offset) & 0xffffff) === 0x303075) asciiEscapes = true
  return (
    code === 0x75 &&
    (load<u8>(hex + <usize>load<u8>(offset, 1)) &
      load<u8>(hex + <usize>load<u8>(offset, 2)) &
      load<u8>(hex + <usize>load<u8>(offset, 3)) &
      load<u8>(hex + <usize>load<u8>(offset, 4))) !==
      0
  )
}

/**
 * The bytes that a backslash escapes: those after an odd number of backslashes. `escaped` is 1 if the block before escapes the first
 * byte of this one.
 */
export function escapedBytes(slashes: u64, escaped: u64): u64 {
  const starting = slashes & ~escaped
  const follows = (starting << 1) | escaped
  return (even ^ (sumOf(starting, follows) << 1)) & follows
}

/** Whether the last byte of the block escapes the first one of the next. */
export function escapesNext(slashes: u64, escaped: u64): u64 {
  const starting = slashes & ~escaped
  return <u64>(sumOf(starting, (starting << 1) | escaped) < starting)
}

const even: u64 = u64.MAX_VALUE / 3

/** The carry of the sum runs through each row of backslashes that begins at an odd place. */
function sumOf(starting: u64, follows: u64): u64 {
  return (starting & ~even & ~follows) + starting
}

/** Each bit becomes the parity of the bits up to it. */
export function parities(bits: u64): u64 {
  bits ^= bits << 1
  bits ^= bits << 2
  bits ^= bits << 4
  bits ^= bits << 8
  bits ^= bits << 16
  return bits ^ (bits << 32)
}

/** A bit for each of 64 bytes. */
function bits(a: v128, b: v128, c: v128, d: v128): u64 {
  return (
    <u64>(<u32>i8x16.bitmask(a)) |
    ((<u64>(<u32>i8x16.bitmask(b))) << 16) |
    ((<u64>(<u32>i8x16.bitmask(c))) << 32) |
    ((<u64>(<u32>i8x16.bitmask(d))) << 48)
  )
}

/** The same: whether the byte is that of `wanted`. */
export function equalBits(a: v128, b: v128, c: v128, d: v128, wanted: v128): u64 {
  return bits(i8x16.eq(a, wanted), i8x16.eq(b, wanted), i8x16.eq(c, wanted), i8x16.eq(d, wanted))
}

/** Bytes that are compared with. They are loaded before the loop: a constant in it would be put together in each block. */
const bytes = memory.data<u8>([0x22, 0x5c, 0x20, 0x0f, 0x24])
/** `: { , }` by their lower four bits. */
const operators = memory.data<u8>([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3a, 0x7b, 0x2c, 0x7d, 0, 0])

/**
 * Reads the window from `start` up to `end`, each a multiple of 64 or the length of the document. Writes the positions to
 * `marks`, after the last window `length`; to `found` the position and the number of each literal. Returns the end of the
 * positions; 0: rejected. `padding` bytes after the window must be those of the document.
 */
export function mark(
  input: usize,
  start: i32,
  end: i32,
  length: i32,
  marks: usize,
  found: usize,
): usize {
  if (start === 0) begin(input, length)
  let out = marks
  let inString = lastInString
  let escaped = lastEscaped
  let wasHigh = lastWasHigh
  let invalid: u64 = 0
  let wrong = i8x16.splat(0)
  const quote = v128.load8_splat(bytes)
  const slash = v128.load8_splat(bytes + 1)
  const space = v128.load8_splat(bytes + 2)
  const low = v128.load8_splat(bytes + 3)
  const dollar = v128.load8_splat(bytes + 4)
  const table = v128.load(operators)
  foundEnd = found
  // The last bytes of a valid document are ASCII: no UTF-8 sequence is cut short at its end.
  for (let offset = start; offset < end; offset += block) {
    const from = input + <usize>offset
    const a = v128.load(from)
    const b = v128.load(from, 16)
    const c = v128.load(from, 32)
    const d = v128.load(from, 48)

    const isHigh = i8x16.bitmask(v128.or(v128.or(a, b), v128.or(c, d))) !== 0
    if (isHigh || wasHigh) {
      wrong = v128.or(wrong, v128.or(invalidUtf8(from), invalidUtf8(from + 16)))
      wrong = v128.or(wrong, v128.or(invalidUtf8(from + 32), invalidUtf8(from + 48)))
      if (isHigh) {
        if (highTo === 0) highFrom = offset
        highTo = offset + block
      }
    }
    wasHigh = isHigh

    const dollarA = i8x16.eq(a, dollar)
    const dollarB = i8x16.eq(b, dollar)
    const dollarC = i8x16.eq(c, dollar)
    const dollarD = i8x16.eq(d, dollar)
    if (v128.any_true(v128.or(v128.or(dollarA, dollarB), v128.or(dollarC, dollarD)))) {
      let dollars = bits(dollarA, dollarB, dollarC, dollarD)
      for (; dollars !== 0; dollars &= dollars - 1) {
        const place = <usize>ctz(dollars)
        const literal = literalAt(from + place)
        if (literal === 0) continue
        store<i32>(foundEnd, offset + <i32>place)
        store<i32>(foundEnd, literal, 4)
        foundEnd += 8
      }
    }

    // The bytes that a backslash escapes: those after an odd number of backslashes.
    const slashes = equalBits(a, b, c, d, slash)
    let quotes = equalBits(a, b, c, d, quote)
    let others: u64 = 0
    if ((slashes | escaped) !== 0) {
      const after = escapedBytes(slashes, escaped)
      escaped = escapesNext(slashes, escaped)
      others = after & ~quotes & ~slashes
      quotes &= ~after
      if (slashTo === 0) slashFrom = offset
      slashTo = offset + block
    }
    while (others !== 0) {
      if (!isEscape(from + <usize>ctz(others))) invalid = 1
      others &= others - 1
    }

    // 1 from an opening quote up to the closing one.
    const strings = parities(quotes) ^ inString
    inString = <u64>(<i64>strings >> 63)

    // Most blocks have no control character at all.
    const least = i8x16.min_u(i8x16.min_u(a, b), i8x16.min_u(c, d))
    if (i8x16.bitmask(i8x16.lt_u(least, space)) !== 0)
      invalid |=
        strings &
        bits(i8x16.lt_u(a, space), i8x16.lt_u(b, space), i8x16.lt_u(c, space), i8x16.lt_u(d, space))

    // `[` and `{`, and `]` and `}`, differ in the bit 0x20. Two control characters count as operators; the grammar
    // rejects them.
    const operator = bits(
      i8x16.eq(i8x16.swizzle(table, v128.and(a, low)), v128.or(a, space)),
      i8x16.eq(i8x16.swizzle(table, v128.and(b, low)), v128.or(b, space)),
      i8x16.eq(i8x16.swizzle(table, v128.and(c, low)), v128.or(c, space)),
      i8x16.eq(i8x16.swizzle(table, v128.and(d, low)), v128.or(d, space)),
    )
    let tokens = quotes | (operator & ~strings)
    const next = out + ((<usize>popcnt(tokens)) << 2)
    // Eight at a time, more than there may be: a loop that ends after the last one is mispredicted in each block.
    while (tokens !== 0) {
      for (let n: usize = 0; n < 32; n += 4) {
        store<i32>(out + n, offset + <i32>ctz(tokens))
        tokens &= tokens - 1
      }
      out += 32
    }
    out = next
  }
  lastInString = inString
  lastEscaped = escaped
  lastWasHigh = wasHigh
  if (end === length) {
    store<i32>(out, length)
    invalid |= inString
  }
  return invalid === 0 && !v128.any_true(wrong) ? out : 0
}

function begin(input: usize, length: i32): void {
  memory.fill(input + <usize>length, 0, padding)
  lastInString = 0
  lastEscaped = 0
  lastWasHigh = false
  highFrom = length
  highTo = 0
  slashFrom = length
  slashTo = 0
  asciiEscapes = false
}
