/** Poly1305 by its definition, slowly. */

const number = (littleEndian: Buffer) =>
  littleEndian.length === 0
    ? 0n
    : BigInt(`0x${Buffer.from(littleEndian).reverse().toString('hex')}`)

/** The definition (RFC 8439 2.5.1). */
export function definedTag(oneTimeKey: Buffer, message: Buffer): Buffer {
  const r = number(oneTimeKey.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn
  let sum = 0n
  for (let index = 0; index < message.length; index += 16) {
    const block = message.subarray(index, index + 16)
    sum = ((sum + number(block) + (1n << BigInt(8 * block.length))) * r) % ((1n << 130n) - 5n)
  }
  const tag = (sum + number(oneTimeKey.subarray(16))) % (1n << 128n)
  return Buffer.from(tag.toString(16).padStart(32, '0'), 'hex').reverse()
}
