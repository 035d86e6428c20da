/**
 * The codes of a DEFLATE block (RFC 1951 3.2.7). They are not made for each message, which takes longer than all else: they fit
 * what recent messages contained, and every symbol has a code, so that they can encode any message.
 */
import { assignCodes, chooseWidths, widthShift } from './huffman'

/** Bytes, the end of the block, and lengths of matches. */
const literalSymbols: u32 = 286
const endOfBlock: u32 = 256
const distanceSymbols: u32 = 30
const symbols: u32 = literalSymbols + distanceSymbols
const longestMatch: u32 = 258
/** Codes have at most so many bits; those of `runCodes` at most 7. */
const maxWidth: u32 = 15
/** Messages from one making of the codes to the next. The first ones are made after 1, 2, 4, ... messages. */
const messagesAtMost: u32 = 64

/** How often each symbol occurred in recent messages: literals and lengths, then distances. */
export const counts: usize = memory.data(316 * 4, 16)
export const distanceCounts: usize = counts + literalSymbols * 4
/** Words of a code and its width in the highest byte: by byte, by length of a match with the extra bits, by symbol of a distance. */
export const literals: usize = memory.data(286 * 4, 16)
export const lengths: usize = memory.data(259 * 4, 16)
export const distances: usize = memory.data(30 * 4, 16)
/** The symbol of each length. */
export const lengthSymbols: usize = memory.data(259 * 2, 16)
/** The head of a gzip member (RFC 1952 2.3) and of its only block, up to the byte that the block's first code begins in. */
export const head: usize = memory.data(512, 16)
export let headBytes: usize = 0
/** Of that byte: the bits that belong to the head, and how many. */
export let headRest: u64 = 0
export let headRestWidth: u64 = 0
/** Bytes of the head of a gzip member. */
export const memberHead: usize = 10

/** No name, no time, fastest method, unknown system. */
const memberHeadBytes = memory.data<u8>([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255])
const widths: usize = memory.data(316, 16)
/** Widths in the order of the symbols. A run of one width is this width, and then `repeated` with the number of further ones. */
const runs: usize = memory.data(316, 16)
const repeated: u32 = 16
const runSymbols: u32 = 19
const runCounts: usize = memory.data(19 * 4, 16)
const runWidths: usize = memory.data(19, 16)
const runCodes: usize = memory.data(19 * 4, 16)
const runOrder = memory.data<u8>([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15])

/** Messages until codes are made again, and at the next time. */
let messagesLeft: u32 = 0
let messages: u32 = 1
let headBits: u32 = 0

/** To be called before each message. */
export function prepareCodes(): void {
  if (messagesLeft === 0) {
    makeCodes()
    messagesLeft = messages
    messages = min(messages * 2, messagesAtMost)
  }
  messagesLeft--
}

function makeCodes(): void {
  // Each message has one end.
  store<u32>(counts, messages, 256 * 4)
  for (let symbol: usize = 0; symbol < symbols; symbol++) {
    const count = counts + (symbol << 2)
    store<u32>(count, max<u32>(load<u32>(count), 1))
  }
  chooseWidths(counts, literalSymbols, widths, maxWidth)
  chooseWidths(distanceCounts, distanceSymbols, widths + literalSymbols, maxWidth)
  assignCodes(widths, literalSymbols, literals)
  assignCodes(widths + literalSymbols, distanceSymbols, distances)
  writeLengths()
  writeHead()
  // Older messages count less and less.
  for (let symbol: usize = 0; symbol < symbols; symbol++) {
    const count = counts + (symbol << 2)
    store<u32>(count, load<u32>(count) >> 1)
  }
}

/** The table of RFC 1951 3.2.5: from symbol 265 on, four symbols each have one bit more for the rest of the length. */
function writeLengths(): void {
  let length: u32 = 3
  for (let symbol: u32 = 257; symbol < literalSymbols - 1; symbol++) {
    const code = load<u32>(literals + (symbol << 2))
    const extra: u32 = symbol < 265 ? 0 : (symbol - 261) >> 2
    for (let rest: u32 = 0; rest < (<u32>1) << extra; rest++)
      setLength(length++, symbol, (code + (extra << widthShift)) | (rest << (code >> widthShift)))
  }
  const symbol = literalSymbols - 1
  setLength(longestMatch, symbol, load<u32>(literals + (symbol << 2)))
}

function setLength(length: u32, symbol: u32, code: u32): void {
  store<u32>(lengths + (length << 2), code)
  store<u16>(lengthSymbols + (length << 1), <u16>symbol)
}

function writeHead(): void {
  memory.fill(head, 0, 512)
  memory.copy(head, memberHeadBytes, memberHead)
  headBits = <u32>memberHead * 8
  const length = writeRuns()
  chooseWidths(runCounts, runSymbols, runWidths, 7)
  assignCodes(runWidths, runSymbols, runCodes)
  // The last block, with codes of its own.
  put(0b101, 3)
  put(literalSymbols - 257, 5)
  put(distanceSymbols - 1, 5)
  put(runSymbols - 4, 4)
  for (let n: usize = 0; n < runSymbols; n++)
    put(load<u8>(runWidths + <usize>load<u8>(runOrder + n)), 3)
  for (let n: usize = 0; n < length; n++) {
    const run = <u32>load<u8>(runs + n)
    const code = load<u32>(runCodes + (min(run, repeated) << 2))
    put(code & 0xffffff, code >> widthShift)
    if (run >= repeated) put(run - repeated, 2)
  }
  headBytes = headBits >> 3
  headRest = load<u8>(head + headBytes)
  headRestWidth = headBits & 7
}

function put(value: u32, width: u32): void {
  for (let bit: u32 = 0; bit < width; bit++) {
    const byte = head + (headBits >> 3)
    store<u8>(byte, load<u8>(byte) | <u8>(((value >> bit) & 1) << (headBits & 7)))
    headBits++
  }
}

/** Writes `runs`: a width, or `repeated` + n for n + 3 further ones. Returns their number. */
function writeRuns(): usize {
  memory.fill(runCounts, 0, runSymbols * 4)
  let length: usize = 0
  for (let symbol: u32 = 0; symbol < symbols; ) {
    const width = <u32>load<u8>(widths + symbol)
    addRun(length++, width)
    symbol++
    let further: u32 = 0
    while (symbol + further < symbols && load<u8>(widths + symbol + further) === width) further++
    symbol += further
    for (; further >= 3; further -= min(further, 6))
      addRun(length++, repeated + min(further, 6) - 3)
    for (; further > 0; further--) addRun(length++, width)
  }
  return length
}

function addRun(index: usize, run: u32): void {
  store<u8>(runs + index, <u8>run)
  const count = runCounts + (min(run, repeated) << 2)
  store<u32>(count, load<u32>(count) + 1)
}

export { endOfBlock, longestMatch, widthShift }
