/**
 * UTF-8 validation by three table look-ups of each pair of bytes: J. Keiser and D. Lemire, "Validating UTF-8 In Less Than
 * One Instruction Per Byte", 2020. Each bit of a table is one error; it remains only if all three tables have it.
 */
const tooShort: i8 = 0x01 // a lead byte without a continuation
const tooLong: i8 = 0x02 // an ASCII byte with a continuation
const overlong3: i8 = 0x04
const tooLarge: i8 = 0x08 // above U+10FFFF, second byte 9x to Bx
const surrogate: i8 = 0x10
const overlong2: i8 = 0x20
const fourBytes: i8 = 0x40 // overlong, or above U+13FFFF, second byte 8x
const twoContinuations: i8 = -0x80 // right only in a sequence of three or four bytes

const carry: i8 = tooShort | tooLong | twoContinuations
const large: i8 = carry | tooLarge | fourBytes
const second: i8 = tooLong | overlong2 | twoContinuations

/** For each byte of 16: not zero if the sequence of up to four bytes that ends there is invalid. */
export function invalidUtf8(offset: usize): v128 {
  const byte = v128.load(offset)
  const before = v128.load(offset - 1)
  const low = i8x16.splat(0x0f)
  const firstHigh = i8x16.swizzle(
    // biome-ignore format: a row for four values of the nibble
    i8x16(
      tooLong, tooLong, tooLong, tooLong,
      tooLong, tooLong, tooLong, tooLong,
      twoContinuations, twoContinuations, twoContinuations, twoContinuations,
      tooShort | overlong2, tooShort, tooShort | overlong3 | surrogate, tooShort | tooLarge | fourBytes,
    ),
    i8x16.shr_u(before, 4),
  )
  const firstLow = i8x16.swizzle(
    // biome-ignore format: a row for four values of the nibble
    i8x16(
      carry | overlong3 | overlong2 | fourBytes, carry | overlong2, carry, carry,
      carry | tooLarge, large, large, large,
      large, large, large, large,
      large, large | surrogate, large, large,
    ),
    v128.and(before, low),
  )
  const secondHigh = i8x16.swizzle(
    // biome-ignore format: a row for four values of the nibble
    i8x16(
      tooShort, tooShort, tooShort, tooShort,
      tooShort, tooShort, tooShort, tooShort,
      second | overlong3 | fourBytes, second | overlong3 | tooLarge, second | surrogate | tooLarge, second | surrogate | tooLarge,
      tooShort, tooShort, tooShort, tooShort,
    ),
    i8x16.shr_u(byte, 4),
  )
  const errors = v128.and(v128.and(firstHigh, firstLow), secondHigh)
  // The third byte after E0 to FF, and the fourth after F0 to FF, must be the second of two continuations.
  const third = i8x16.ge_u(v128.load(offset - 2), i8x16.splat(-0x20))
  const fourth = i8x16.ge_u(v128.load(offset - 3), i8x16.splat(-0x10))
  const continues = v128.and(v128.or(third, fourth), i8x16.splat(-0x80))
  return v128.xor(errors, continues)
}
