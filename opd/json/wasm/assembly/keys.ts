/**
 * The keys that are read of any object: a hash table of 256 slots, written by opd/json/known-keys.ts. A slot is the key in 16
 * bytes, padded with zeros, and its number, which is not 0.
 */
export const keys: usize = memory.data(256 * 20, 16)
/** The number of a key that is written with escapes, whatever it is. */
export const escapedKey: i32 = 255

const slotBytes: usize = 20
/** From here less the length of a key: a mask of its bytes. */
const masks = memory.data<u8>([
  255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0,
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
])

/** The number of the key of `length` bytes at `at`; 0: not one that is read. Strings have no control characters. */
export function keyOf(at: usize, length: i32): i32 {
  if (length > 16) return 0
  const key = v128.and(v128.load(at), v128.load(masks + 16 - <usize>length))
  const start = <u64>i64x2.extract_lane(key, 0)
  // As in opd/json/known-keys.ts.
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
