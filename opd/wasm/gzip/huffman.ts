/** Huffman codes as DEFLATE writes them (RFC 1951 3.2.2): symbols have widths in bits, and the codes follow from the widths. */

/** Symbols of the largest alphabet. */
const maxSymbols: usize = 286
/** Bits of the widest code. */
const maxWidth: u32 = 15

/** Symbols that occur, by rising count. */
const ordered: usize = memory.data(maxSymbols * 4, 16)
/** Of the nodes of the tree, leaves first: their weight, and then their depth. */
const nodes: usize = memory.data(maxSymbols * 2 * 4, 16)
const parents: usize = memory.data(maxSymbols * 2 * 4, 16)
/** By width: how many codes have it, and the next one. */
const used: usize = memory.data((maxWidth + 1) * 4, 16)
const nextCodes: usize = memory.data((maxWidth + 1) * 4, 16)

/** The word at `index`. */
function word(base: usize, index: u32): u32 {
  return load<u32>(base + ((<usize>index) << 2))
}

function setWord(base: usize, index: u32, value: u32): void {
  store<u32>(base + ((<usize>index) << 2), value)
}

function order(counts: usize, symbols: u32): u32 {
  let length: u32 = 0
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const count = word(counts, symbol)
    if (count === 0) continue
    let place = length++
    while (place > 0 && word(counts, word(ordered, place - 1)) > count) {
      setWord(ordered, place, word(ordered, place - 1))
      place--
    }
    setWord(ordered, place, symbol)
  }
  return length
}

/** Joins the two lightest nodes again and again. Returns the number of the root. */
function join(counts: usize, leaves: u32): u32 {
  for (let leaf: u32 = 0; leaf < leaves; leaf++)
    setWord(nodes, leaf, word(counts, word(ordered, leaf)))
  const root: u32 = 2 * leaves - 2
  let leaf: u32 = 0
  let node = leaves
  for (let made = leaves; made <= root; made++) {
    let weight: u32 = 0
    for (let n = 0; n < 2; n++) {
      const takesLeaf = leaf < leaves && (node === made || word(nodes, leaf) <= word(nodes, node))
      const child = takesLeaf ? leaf++ : node++
      weight += word(nodes, child)
      setWord(parents, child, made)
    }
    setWord(nodes, made, weight)
  }
  return root
}

/** Replaces the weights by depths. Returns the largest one. */
function measure(root: u32): u32 {
  let deepest: u32 = 0
  setWord(nodes, root, 0)
  for (let node = root; node-- > 0; ) {
    const depth = word(nodes, word(parents, node)) + 1
    setWord(nodes, node, depth)
    deepest = max(deepest, depth)
  }
  return deepest
}

/**
 * Writes the width of each symbol to `widths`, a byte each, 0 for one that does not occur. At least two must occur. If a code
 * would be wider than `most` bits, the counts are halved until none is.
 */
export function chooseWidths(counts: usize, symbols: u32, widths: usize, most: u32): void {
  for (;;) {
    const leaves = order(counts, symbols)
    if (measure(join(counts, leaves)) <= most) {
      memory.fill(widths, 0, symbols)
      for (let leaf: u32 = 0; leaf < leaves; leaf++)
        store<u8>(widths + word(ordered, leaf), <u8>word(nodes, leaf))
      return
    }
    for (let symbol: u32 = 0; symbol < symbols; symbol++) {
      const count = word(counts, symbol)
      if (count !== 0) setWord(counts, symbol, (count >> 1) | 1)
    }
  }
}

/** Where the width is in a word of `assignCodes`. */
export const widthShift: u32 = 24

function reversed(code: u32, width: u32): u32 {
  let result: u32 = 0
  for (let bit: u32 = 0; bit < width; bit++) result |= ((code >> bit) & 1) << (width - 1 - bit)
  return result
}

/** Writes a word for each symbol: its code, first bit lowest, and its width in the highest byte. */
export function assignCodes(widths: usize, symbols: u32, codes: usize): void {
  memory.fill(used, 0, (maxWidth + 1) * 4)
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const width = <u32>load<u8>(widths + symbol)
    if (width !== 0) setWord(used, width, word(used, width) + 1)
  }
  let code: u32 = 0
  for (let width: u32 = 1; width <= maxWidth; width++) {
    code = (code + word(used, width - 1)) << 1
    setWord(nextCodes, width, code)
  }
  for (let symbol: u32 = 0; symbol < symbols; symbol++) {
    const width = <u32>load<u8>(widths + symbol)
    if (width === 0) continue
    const next = word(nextCodes, width)
    setWord(nextCodes, width, next + 1)
    setWord(codes, symbol, reversed(next, width) | (width << widthShift))
  }
}
