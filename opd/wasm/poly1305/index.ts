/**
 * Poly1305 (RFC 8439 2.5): the authenticator of one message under a key that is used once. Numbers modulo 2^130 - 5 are five
 * limbs of 26 bits; no branch and no address depends on a secret.
 */

/** The one-time key: r, then s. */
export const key: usize = memory.data(32, 16)
/** The message. */
export const input: usize = memory.data(2048, 16)
/** The last block of a message, with zeros after its end. */
const last: usize = memory.data(16, 16)

const limb: u32 = 0x3ffffff

let r0: u32 = 0
let r1: u32 = 0
let r2: u32 = 0
let r3: u32 = 0
let r4: u32 = 0
let h0: u32 = 0
let h1: u32 = 0
let h2: u32 = 0
let h3: u32 = 0
let h4: u32 = 0

/** h = (h + block) * r. `high`: the bit after a whole block, 2^128; 0 for the last block, which contains its own. */
function addBlock(offset: usize, high: u32): void {
  const a0 = <u64>(h0 + (load<u32>(offset) & limb))
  const a1 = <u64>(h1 + ((load<u32>(offset, 3) >> 2) & limb))
  const a2 = <u64>(h2 + ((load<u32>(offset, 6) >> 4) & limb))
  const a3 = <u64>(h3 + (load<u32>(offset, 9) >> 6))
  const a4 = <u64>(h4 + ((load<u32>(offset, 12) >> 8) | high))
  const m0 = <u64>r0
  const m1 = <u64>r1
  const m2 = <u64>r2
  const m3 = <u64>r3
  const m4 = <u64>r4
  // 2^130 is 5.
  const f1 = m1 * 5
  const f2 = m2 * 5
  const f3 = m3 * 5
  const f4 = m4 * 5
  let d = a0 * m0 + a1 * f4 + a2 * f3 + a3 * f2 + a4 * f1
  h0 = <u32>d & limb
  d = (d >> 26) + a0 * m1 + a1 * m0 + a2 * f4 + a3 * f3 + a4 * f2
  h1 = <u32>d & limb
  d = (d >> 26) + a0 * m2 + a1 * m1 + a2 * m0 + a3 * f4 + a4 * f3
  h2 = <u32>d & limb
  d = (d >> 26) + a0 * m3 + a1 * m2 + a2 * m1 + a3 * m0 + a4 * f4
  h3 = <u32>d & limb
  d = (d >> 26) + a0 * m4 + a1 * m3 + a2 * m2 + a3 * m1 + a4 * m0
  h4 = <u32>d & limb
  const carried = h0 + <u32>(d >> 26) * 5
  h0 = carried & limb
  h1 += carried >> 26
}

function addLast(offset: usize, length: i32): void {
  v128.store(last, i64x2.splat(0))
  for (let index = 0; index < length; index++)
    store<u8>(last + <usize>index, load<u8>(offset + <usize>index))
  store<u8>(last + <usize>length, 1)
  addBlock(last, 0)
}

/** h is carried, and reduced modulo 2^130 - 5. */
function reduce(): void {
  h2 += h1 >> 26
  h1 &= limb
  h3 += h2 >> 26
  h2 &= limb
  h4 += h3 >> 26
  h3 &= limb
  h0 += (h4 >> 26) * 5
  h4 &= limb
  h1 += h0 >> 26
  h0 &= limb
  // h + 5 - 2^130: h is too large by the modulus if this is not negative.
  const g0 = h0 + 5
  const g1 = h1 + (g0 >> 26)
  const g2 = h2 + (g1 >> 26)
  const g3 = h3 + (g2 >> 26)
  const g4 = h4 + (g3 >> 26) - (1 << 26)
  const take = (g4 >> 31) - 1
  h0 = (h0 & ~take) | (g0 & limb & take)
  h1 = (h1 & ~take) | (g1 & limb & take)
  h2 = (h2 & ~take) | (g2 & limb & take)
  h3 = (h3 & ~take) | (g3 & limb & take)
  h4 = (h4 & ~take) | (g4 & limb & take)
}

/** Writes the tag of the first `length` bytes of the input to `tag`: h + s modulo 2^128. */
function writeTag(tag: usize): void {
  const w0 = h0 | (h1 << 26)
  const w1 = (h1 >> 6) | (h2 << 20)
  const w2 = (h2 >> 12) | (h3 << 14)
  const w3 = (h3 >> 18) | (h4 << 8)
  let sum = <u64>w0 + <u64>load<u32>(key, 16)
  store<u32>(tag, <u32>sum)
  sum = (sum >> 32) + <u64>w1 + <u64>load<u32>(key, 20)
  store<u32>(tag, <u32>sum, 4)
  sum = (sum >> 32) + <u64>w2 + <u64>load<u32>(key, 24)
  store<u32>(tag, <u32>sum, 8)
  sum = (sum >> 32) + <u64>w3 + <u64>load<u32>(key, 28)
  store<u32>(tag, <u32>sum, 12)
}

/** Authenticates `length` bytes from the address `from` on. The tag of 16 bytes is written to the address `tag`. */
export function authenticate(from: usize, length: i32, tag: usize): void {
  r0 = load<u32>(key) & 0x3ffffff
  r1 = (load<u32>(key, 3) >> 2) & 0x3ffff03
  r2 = (load<u32>(key, 6) >> 4) & 0x3ffc0ff
  r3 = (load<u32>(key, 9) >> 6) & 0x3f03fff
  r4 = (load<u32>(key, 12) >> 8) & 0x00fffff
  h0 = 0
  h1 = 0
  h2 = 0
  h3 = 0
  h4 = 0
  let offset = from
  for (let left = length; left >= 16; left -= 16, offset += 16) addBlock(offset, 1 << 24)
  if ((length & 15) !== 0) addLast(offset, length & 15)
  reduce()
  writeTag(tag)
}
