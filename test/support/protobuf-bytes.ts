/** Protocol Buffers written field by field, with freedoms that no library takes, and read back into the same fields. */

/** One field as it was sent: its tag, the spelling of its length if it has one, and its value. */
export interface SentField {
  number: number
  wireType: number
  tag: Buffer
  length: Buffer
  value: Buffer
}

/** A varint in at least `width` bytes. */
function varint(value: number | bigint, width = 1): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  while (rest > 127n || bytes.length < width - 1) {
    bytes.push(Number(rest & 127n) | 128)
    rest >>= 7n
  }
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}

const tagOf = (number: number, wireType: number) => varint(number * 8 + wireType)

export const int = (number: number, value: number | bigint, width = 1) =>
  Buffer.concat([tagOf(number, 0), varint(value, width)])

export function double(number: number, value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return Buffer.concat([tagOf(number, 1), bytes])
}

/** A text or a message. `width`: bytes of its length, at least. */
export function bytes(number: number, value: string | Buffer | Buffer[], width = 1): Buffer {
  const content = Array.isArray(value) ? Buffer.concat(value) : Buffer.from(value as string)
  return Buffer.concat([tagOf(number, 2), varint(content.length, width), content])
}

/** The fields of a message. Throws if the bytes are no message. */
export function fieldsOf(message: Buffer): SentField[] {
  const fields: SentField[] = []
  let offset = 0
  const take = (count: number) => {
    if (offset + count > message.length) throw new RangeError('cut')
    offset += count
    return message.subarray(offset - count, offset)
  }
  const readVarint = (): [spelling: Buffer, value: bigint] => {
    const start = offset
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const [byte] = take(1)
      value |= BigInt(byte! & 127) << shift
      if (byte! < 128) return [message.subarray(start, offset), BigInt.asUintN(64, value)]
    }
    throw new RangeError('a long varint')
  }
  while (offset < message.length) {
    const [tag, key] = readVarint()
    const number = Number(key >> 3n)
    const wireType = Number(key & 7n)
    if (number === 0 || key > 0xffffffffn) throw new RangeError('a field number')
    let length = Buffer.alloc(0)
    let value: Buffer
    if (wireType === 0) [value] = readVarint()
    else if (wireType === 1) value = take(8)
    else if (wireType === 5) value = take(4)
    else if (wireType === 2) {
      const [spelling, count] = readVarint()
      length = Buffer.from(spelling)
      value = take(Number(count))
    } else throw new RangeError('a group')
    fields.push({ number, wireType, tag, length, value })
  }
  return fields
}

/** The last value of a field of a wire type: the one that counts. */
export const lastOf = (fields: readonly SentField[], number: number, wireType: number) =>
  fields.findLast((field) => field.number === number && field.wireType === wireType)
