/**
 * Encodes a message as gzip (RFC 1952): the head of the member and one block of DEFLATE (RFC 1951). Matches are looked for at one
 * place, where the same four bytes were last; the codes fit recent messages (codes.ts). Some 40 % of the time of zlib at level 1,
 * and 1 % more bytes, for bids of 3 KB: nothing is cleared and no code is made for a message.
 */
import {
  counts,
  distanceCounts,
  distances,
  endOfBlock,
  head,
  headBytes,
  headRest,
  headRestWidth,
  lengthSymbols,
  lengths,
  literals,
  longestMatch,
  memberHead,
  prepareCodes,
  widthShift,
} from './codes'

/** How far back a match may begin. */
const farthest: u32 = 32768

/** The message, and bytes that are read after it. At most 65,535 bytes: the content of a block without codes. */
export const input: usize = memory.data(65535 + 1 + 16, 16)
/** The member without its end. A literal takes 15 bits at most, and a match, of four bytes at least, 48. */
export const output: usize = memory.data(2 * 65536 + 512 + 16, 16)

/** By hash of four bytes: where they were last, in this message or an earlier one. Nothing is cleared: the bytes are compared. */
const lastPlaces: usize = memory.data(4096 * 2, 16)
const hashBits = 12

function slot(bytes: u32): usize {
  return lastPlaces + ((<usize>((bytes * 0x9e3779b1) >> (32 - hashBits))) << 1)
}

function addCount(count: usize): void {
  store<u32>(count, load<u32>(count) + 1)
}

/** Encodes the first `length` bytes of `input`. Returns the length of `output`. */
export function encode(length: u32): u32 {
  prepareCodes()
  memory.copy(output, head, headBytes)
  let out = output + headBytes
  let bits = headRest
  let width = headRestWidth
  let place: u32 = 0
  while (place < length) {
    const from = input + place
    const bytes = load<u32>(from)
    const last = slot(bytes)
    const back = place - load<u16>(last)
    store<u16>(last, <u16>place)
    // Below 0, `back` is a large number.
    if (back - 1 >= farthest || load<u32>(from - back) !== bytes || length - place < 4) {
      const literal: usize = (bytes & 255) << 2
      addCount(counts + literal)
      const code = load<u32>(literals + literal)
      bits |= (<u64>(code & 0xffffff)) << width
      width += code >> widthShift
      if (width >= 40) {
        store<u64>(out, bits)
        out += <usize>(width >> 3)
        bits >>= width & 56
        width &= 7
      }
      place++
      continue
    }
    // 57 bits are free then.
    store<u64>(out, bits)
    out += <usize>(width >> 3)
    bits >>= width & 56
    width &= 7
    const matched = matchLength(from, from - back, min(longestMatch, length - place))
    for (let n: u32 = 1; n < matched; n++) store<u16>(slot(load<u32>(from + n)), <u16>(place + n))
    place += matched
    addCount(counts + ((<usize>load<u16>(lengthSymbols + (matched << 1))) << 2))
    const code = load<u32>(lengths + (matched << 2))
    bits |= (<u64>(code & 0xffffff)) << width
    width += code >> widthShift
    // RFC 1951 3.2.5: two symbols for each power of two, and the lower bits.
    const distance = back - 1
    const extra: u32 = distance < 4 ? 0 : 30 - clz(distance)
    const symbol: usize = ((extra << 1) + (distance >> extra)) << 2
    addCount(distanceCounts + symbol)
    const distanceCode = load<u32>(distances + symbol)
    bits |= (<u64>(distanceCode & 0xffffff)) << width
    width += distanceCode >> widthShift
    bits |= (<u64>(distance & ((1 << extra) - 1))) << width
    width += extra
  }
  store<u64>(out, bits)
  out += <usize>(width >> 3)
  bits >>= width & 56
  width &= 7
  const end = load<u32>(literals + (endOfBlock << 2))
  bits |= (<u64>(end & 0xffffff)) << width
  width += end >> widthShift
  store<u64>(out, bits)
  out += <usize>((width + 7) >> 3)
  const encoded = <u32>(out - output)
  return encoded > <u32>memberHead + 5 + length ? copyMessage(length) : encoded
}

/** How many bytes are the same, of which the first four are. */
function matchLength(from: usize, earlier: usize, most: u32): u32 {
  let length: u32 = 4
  while (length < most) {
    const differ = load<u64>(from + length) ^ load<u64>(earlier + length)
    if (differ !== 0) return min(length + <u32>(ctz(differ) >> 3), most)
    length += 8
  }
  return most
}

/** A message that codes make longer is the content of a block without codes (RFC 1951 3.2.4). */
function copyMessage(length: u32): u32 {
  const block = output + memberHead
  store<u8>(block, 1)
  store<u16>(block, <u16>length, 1)
  store<u16>(block, <u16>~length, 3)
  memory.copy(block + 5, input, length)
  return <u32>memberHead + 5 + length
}
