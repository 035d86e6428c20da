/** Writes Protocol Buffers: the messages that bidweir answers with are small. */

const wireVarint = 0
const wireFixed64 = 1
const wireLengths = 2

/** Collects the fields of one message, in the order of the calls. A field is named by its number. */
export class ProtobufWriter {
  /** The bytes of a number, 0 to 2^53: also of the length before a message in a stream. */
  static readonly varint = varint

  private readonly parts: Buffer[] = []

  /** @param value 0 to 2^31 - 1; of an enum or a bool, too */
  int32(field: number, value: number): this {
    this.tag(field, wireVarint)
    this.parts.push(varint(value))
    return this
  }

  /** @param value 0 to 2^53 */
  uint64(field: number, value: number): this {
    return this.int32(field, value)
  }

  /** @param value -2^52 to 2^52 */
  sint64(field: number, value: number): this {
    return this.int32(field, value < 0 ? -2 * value - 1 : 2 * value)
  }

  /** @param value any, also infinite or NaN */
  double(field: number, value: number): this {
    this.tag(field, wireFixed64)
    const bytes = Buffer.allocUnsafe(8)
    bytes.writeDoubleLE(value)
    this.parts.push(bytes)
    return this
  }

  /** @param value is written as UTF-8 */
  text(field: number, value: string): this {
    return this.lengths(field, Buffer.from(value))
  }

  /** @param value its fields so far */
  message(field: number, value: ProtobufWriter): this {
    return this.lengths(field, value.bytes())
  }

  bytes(): Buffer {
    return Buffer.concat(this.parts)
  }

  private lengths(field: number, value: Buffer): this {
    this.tag(field, wireLengths)
    this.parts.push(varint(value.length), value)
    return this
  }

  private tag(field: number, wireType: number): void {
    this.parts.push(varint(field * 8 + wireType))
  }
}

/** `value`: 0 to 2^53. */
function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80)
  bytes.push(rest)
  return Buffer.from(bytes)
}
