/**
 * Texts that are looked for in the whole document, written by opd/json/literals.ts: eight slots of 32 bytes and a mask of them.
 * All begin with the same four bytes, of which the first is `$`. An empty slot ends them.
 */
export const literals: usize = memory.data(8 * 64, 16)

const slotBytes: usize = 64

/** The number, from 1, of the one that begins at `at`; 0: none. */
export function literalAt(at: usize): i32 {
  if (load<u32>(at) !== load<u32>(literals)) return 0
  const start = v128.load(at)
  const rest = v128.load(at, 16)
  let number = 1
  for (let from = literals; load<u8>(from) !== 0; from += slotBytes) {
    const inStart = v128.and(v128.xor(start, v128.load(from)), v128.load(from, 32))
    const inRest = v128.and(v128.xor(rest, v128.load(from, 16)), v128.load(from, 48))
    if (!v128.any_true(v128.or(inStart, inRest))) return number
    number++
  }
  return 0
}
