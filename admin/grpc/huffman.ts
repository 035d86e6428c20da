/** The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: the lengths of its codes say what they are. */

/** Symbols by the length of their codes in bits, in the order of the codes. 256 ends a text. */
const symbolsByLength: readonly (readonly [bits: number, symbols: readonly number[]])[] = [
  [5, [...characters('012aceiost')]],
  [6, [...characters(' %-./3456789=A_bdfghlmnpru')]],
  [7, [...characters(':BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz')]],
  [8, [...characters('&*,;XZ')]],
  [10, [...characters('!"()?')]],
  [11, [...characters("'+|")]],
  [12, [...characters('#>')]],
  [13, [0, ...characters('$@[]~')]],
  [14, [...characters('^}')]],
  [15, [...characters('<`{')]],
  [19, [92, 195, 208]],
  [20, [128, 130, 131, 162, 184, 194, 224, 226]],
  [21, [153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230]],
  [
    22,
    [
      ...[129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185],
      ...[186, 187, 189, 190, 196, 198, 228, 232, 233],
    ],
  ],
  [
    23,
    [
      ...[1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165],
      ...[166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239],
    ],
  ],
  [24, [9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237]],
  [25, [199, 207, 234, 235]],
  [26, [192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255]],
  [
    27,
    [
      ...[203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252],
      ...[253, 254],
    ],
  ],
  [
    28,
    [
      ...[2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28],
      ...[29, 30, 31, 127, 220, 249],
    ],
  ],
  [30, [10, 13, 22, 256]],
]

function characters(text: string): number[] {
  return [...text].map((character) => character.charCodeAt(0))
}

const longest = 30
const endOfText = 256
/** By length: the first code, how many there are, and where their symbols begin in `symbols`. */
const firstCode = new Int32Array(longest + 1)
const codes = new Int32Array(longest + 1)
const firstSymbol = new Int32Array(longest + 1)
const symbols = new Int16Array(257)
{
  let code = 0
  let bits = 0
  let count = 0
  for (const [length, ofLength] of symbolsByLength) {
    code <<= length - bits
    bits = length
    firstCode[length] = code
    codes[length] = ofLength.length
    firstSymbol[length] = count
    symbols.set(ofLength, count)
    code += ofLength.length
    count += ofLength.length
  }
}

/** The text of bytes `start` to `end`, as latin1; null: they are no such code. */
export function decodeHuffman(bytes: Buffer, start: number, end: number): string | null {
  const decoded: number[] = []
  let code = 0
  let length = 0
  for (let position = start; position < end; position++) {
    const byte = bytes[position]!
    for (let bit = 7; bit >= 0; bit--) {
      code = (code << 1) | ((byte >> bit) & 1)
      length++
      const index = code - firstCode[length]!
      if (index < 0 || index >= codes[length]!) {
        if (length === longest) return null
        continue
      }
      const symbol = symbols[firstSymbol[length]! + index]!
      if (symbol === endOfText) return null
      decoded.push(symbol)
      code = 0
      length = 0
    }
  }
  // The last byte is filled up with ones.
  if (length > 7 || code !== (1 << length) - 1) return null
  return Buffer.from(decoded).toString('latin1')
}
