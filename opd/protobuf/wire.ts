/**
 * Reads Protocol Buffers from bytes (protobuf.dev, "Encoding"), as `opd/json` reads JSON: a table names the fields that are
 * read, every other field is skipped. Nothing is copied but texts.
 *
 * A known field of another wire type is skipped, as in Google's runtimes. Groups are malformed: OpenRTB has none.
 */

const wireVarint = 0
const wireFixed64 = 1
const wireLengths = 2
const wireFixed32 = 5

/** Messages within messages. Deeper bytes are malformed. */
const maxDepth = 100

/**
 * Fields of one message and of those within it, known or not: 100,000 take 3 ms and some megabytes of objects. A message with
 * more is not read, whatever its length in bytes.
 */
const maxFields = 100_000

/** The bytes are no message: cut, a varint of more than ten bytes, a group, or nested deeper than `maxDepth`. */
class MalformedMessage extends Error {
  override name = 'MalformedMessage'
}
/** Without a stack: a caller may send many of them. */
const malformed = new MalformedMessage('not a Protocol Buffers message')
delete malformed.stack
const tooLarge = new MalformedMessage('more fields than are read')
delete tooLarge.stack

/** Reads the value of one field. `input` is at the value; it has the wire type that the reader was made for. */
type ReadField<T> = (input: ProtobufInput, target: T) => void

interface Field<T> {
  wireType: number
  /** A list of numbers may also be packed. */
  packed: boolean
  read: ReadField<T>
}

/** A negative int32 has ten bytes: its low 32 bits are its value. */
const int32 = (input: ProtobufInput): number => {
  input.varint()
  return input.lowBits
}

/** Fields by their readers. */
export const field = {
  int32: <T>(set: (target: T, value: number) => void): Field<T> => ({
    wireType: wireVarint,
    packed: false,
    read: (input, target) => set(target, int32(input)),
  }),
  /** A list of numbers, packed or not. `add` is called for each. */
  int32s: <T>(add: (target: T, value: number) => void): Field<T> => ({
    wireType: wireVarint,
    packed: true,
    read: (input, target) => add(target, int32(input)),
  }),
  bool: <T>(set: (target: T, value: boolean) => void): Field<T> => ({
    wireType: wireVarint,
    packed: false,
    read: (input, target) => set(target, input.varint() !== 0),
  }),
  /** `position`: of its eight bytes. */
  double: <T>(set: (target: T, value: number, position: number) => void): Field<T> => ({
    wireType: wireFixed64,
    packed: false,
    read: (input, target) => {
      const { position } = input
      set(target, input.double(), position)
    },
  }),
  text: <T>(set: (target: T, value: string) => void): Field<T> => ({
    wireType: wireLengths,
    packed: false,
    read: (input, target) => set(target, input.text()),
  }),
  /** The place of a text, which is not decoded. `start` to `end`, without its length. */
  span: <T>(set: (target: T, start: number, end: number) => void): Field<T> => ({
    wireType: wireLengths,
    packed: false,
    read: (input, target) => {
      const end = input.lengthEnd()
      set(target, input.position, end)
      input.position = end
    },
  }),
  /**
   * A message. `inside` returns the object that its fields are set on. It returns the same one each time for a field that is
   * not a list: messages that are sent twice are merged.
   */
  message: <T, Inner>(table: FieldTable<Inner>, inside: (target: T) => Inner): Field<T> => ({
    wireType: wireLengths,
    packed: false,
    read: (input, target) => input.message(table, inside(target)),
  }),
}

/** The fields of a message that are read, by their numbers. */
export class FieldTable<T> {
  private readonly fields: (Field<T> | undefined)[] = []

  constructor(fields: Readonly<Record<number, Field<T>>>) {
    for (const [number, value] of Object.entries(fields)) this.fields[Number(number)] = value
  }

  find(number: number): Field<T> | undefined {
    return this.fields[number]
  }
}

/** A position in bytes, and where the message at hand ends. */
class ProtobufInput {
  readonly bytes: Buffer
  position: number
  /** The low 32 bits of the last varint, with their sign. */
  lowBits = 0
  private end: number
  private depth = 0
  private fieldsLeft = maxFields

  constructor(bytes: Buffer) {
    this.bytes = bytes
    this.position = 0
    this.end = bytes.length
  }

  /** Exact up to 2^53. */
  varint(): number {
    const { bytes, end } = this
    let value = 0
    let scale = 1
    let low = 0
    for (let count = 0; count < 10; count++) {
      if (this.position >= end) throw malformed
      const byte = bytes[this.position++]!
      const bits = byte & 0x7f
      value += bits * scale
      scale *= 128
      if (count < 5) low |= bits << (7 * count)
      if (byte < 0x80) {
        this.lowBits = low
        return value
      }
    }
    throw malformed
  }

  double(): number {
    const { position } = this
    if (position + 8 > this.end) throw malformed
    this.position = position + 8
    return this.bytes.readDoubleLE(position)
  }

  /** Reads a length; the end of the value. */
  lengthEnd(): number {
    const length = this.varint()
    const end = this.position + length
    if (end > this.end) throw malformed
    return end
  }

  /** Bytes that are not UTF-8 become U+FFFD. */
  text(): string {
    const end = this.lengthEnd()
    const text = this.bytes.toString('utf8', this.position, end)
    this.position = end
    return text
  }

  message<T>(table: FieldTable<T>, target: T): void {
    const outer = this.end
    const end = this.lengthEnd()
    if (++this.depth > maxDepth) throw malformed
    this.end = end
    this.fields(table, target)
    this.end = outer
    this.depth--
  }

  /** Reads fields up to the end of the message at hand. */
  fields<T>(table: FieldTable<T>, target: T): void {
    while (this.position < this.end) {
      if (this.fieldsLeft-- === 0) throw tooLarge
      const tag = this.varint()
      const wireType = tag & 7
      const number = Math.floor(tag / 8)
      if (number === 0 || tag > 0xffffffff) throw malformed
      const known = table.find(number)
      if (known === undefined) this.skip(wireType)
      else if (known.wireType === wireType) known.read(this, target)
      else if (known.packed && wireType === wireLengths) this.readPacked(known, target)
      else this.skip(wireType)
    }
  }

  private readPacked<T>(known: Field<T>, target: T): void {
    const outer = this.end
    const end = this.lengthEnd()
    this.end = end
    while (this.position < end) {
      if (this.fieldsLeft-- === 0) throw tooLarge
      known.read(this, target)
    }
    this.end = outer
  }

  private skip(wireType: number): void {
    if (wireType === wireVarint) this.varint()
    else if (wireType === wireFixed64) this.position += 8
    else if (wireType === wireLengths) this.position = this.lengthEnd()
    else if (wireType === wireFixed32) this.position += 4
    else throw malformed
    if (this.position > this.end) throw malformed
  }
}

/**
 * Reads one message.
 *
 * @returns null, or why the message cannot be read. `target` may have some of its values then.
 */
export function readMessage<T>(
  bytes: Buffer,
  table: FieldTable<T>,
  target: T,
): 'malformed' | 'too_large' | null {
  const input = new ProtobufInput(bytes)
  try {
    input.fields(table, target)
    return null
  } catch (error) {
    if (error === malformed) return 'malformed'
    if (error === tooLarge) return 'too_large'
    throw error
  }
}
