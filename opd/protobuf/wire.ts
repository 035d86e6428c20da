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
 * Fields of one message and of those within it, known or not, that `readMessage` reads: 100,000 take 3 ms and some megabytes of
 * objects.
 */
export const maxFields = 100_000

/** What is added to `steps` for an object that is made for each of many messages. */
export const objectSteps = 8

/** Bytes of a text that is decoded as UTF-8. A longer one is taken as latin1, which is fast. Real ids have at most 200. */
const longestText = 16 * 1024

/** The bytes are no message: cut, a varint of more than ten bytes, a group, or nested deeper than `maxDepth`. */
class MalformedMessage extends Error {
  override name = 'MalformedMessage'
}
/** Without a stack: a caller may send many of them. */
const malformed = new MalformedMessage('not a Protocol Buffers message')
delete malformed.stack

/** Reads the value of one field. `input` is at the value; it has the wire type that the reader was made for. */
type ReadField<T> = (input: MessageReader, target: T) => void

interface Field<T> {
  wireType: number
  /** A list of numbers may also be packed. */
  packed: boolean
  read: ReadField<T>
}

/** A negative int32 has ten bytes: its low 32 bits are its value. */
const int32 = (input: MessageReader): number => {
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
  /** The place of a text, which is not decoded: `start` to `end`; its length is written from `lengthStart` to `start`. */
  span: <T>(
    set: (target: T, start: number, end: number, lengthStart: number) => void,
  ): Field<T> => ({
    wireType: wireLengths,
    packed: false,
    read: (input, target) => {
      const lengthStart = input.position
      const end = input.lengthEnd()
      set(target, input.position, end, lengthStart)
      input.position = end
    },
  }),
  /**
   * A message. `inside` returns the object that its fields are set on. It returns the same one each time for a field that is
   * not a list: messages that are sent twice are merged.
   */
  message: <T, Inner>(
    table: FieldTable<Inner>,
    inside: (target: T, place: MessagePlace) => Inner,
  ): Field<T> => ({
    wireType: wireLengths,
    packed: false,
    read: (input, target) => {
      const outerEnd = input.end
      input.end = input.lengthEnd()
      input.enter(table, inside(target, input), outerEnd)
    },
  }),
}

/** Where a message is, when its fields are about to be read. */
export interface MessagePlace {
  /** Of its tag, and of its length after that. */
  readonly tagStart: number
  readonly lengthStart: number
  /** Of its first field, and after its last one. */
  readonly position: number
  readonly end: number
  /** Work that was done: a field counts as one, a long text as one for every 32 bytes. */
  steps: number
}

/** The fields of a message that are read, by their numbers. */
export class FieldTable<T> {
  /** Called when a message was read whole. */
  readonly ended: ((target: T) => void) | null
  private readonly fields: (Field<T> | undefined)[] = []

  constructor(
    fields: Readonly<Record<number, Field<T>>>,
    ended: ((target: T) => void) | null = null,
  ) {
    this.ended = ended
    for (const [number, value] of Object.entries(fields)) this.fields[Number(number)] = value
  }

  find(number: number): Field<T> | undefined {
    return this.fields[number]
  }
}

/** The rest of an outer message, which is read after the inner one. */
interface Outer {
  table: FieldTable<unknown>
  target: unknown
  packed: Field<unknown> | null
  end: number
}

/** A cursor in one message. Call `read` until it returns another value than `more`. */
export class MessageReader implements MessagePlace {
  position = 0
  tagStart = 0
  lengthStart = 0
  /** The low 32 bits of the last varint, with their sign. */
  lowBits = 0
  steps = 0
  /** Of the message at hand. */
  end: number
  private readonly bytes: Buffer
  /** Of the message at hand: the fields that are read, and what they are set on. */
  private table: FieldTable<unknown>
  private target: unknown
  /** The list of numbers at hand; null: a message. */
  private packed: Field<unknown> | null = null
  private readonly outer: Outer[] = []

  private constructor(bytes: Buffer, table: FieldTable<unknown>, target: unknown) {
    this.bytes = bytes
    this.table = table
    this.target = target
    this.end = bytes.length
  }

  /**
   * A reader that sets what it reads on `target`.
   *
   * @param bytes one message, without a length before it; not changed while it is read
   * @param table what to do with each field
   * @param target whole once `read` has returned `complete`
   */
  static readerOf<T>(bytes: Buffer, table: FieldTable<T>, target: T): MessageReader {
    return new MessageReader(bytes, table as FieldTable<unknown>, target)
  }

  /**
   * Reads on.
   *
   * @param most about so many steps: a field takes one, a long text one for each 32 bytes
   */
  read(most: number): 'more' | 'complete' | 'malformed' {
    const last = this.steps + most
    try {
      for (;;) {
        while (this.position === this.end) {
          if (this.packed === null) this.table.ended?.(this.target)
          const outer = this.outer.pop()
          if (outer === undefined) return 'complete'
          this.table = outer.table
          this.target = outer.target
          this.packed = outer.packed
          this.end = outer.end
        }
        if (this.steps >= last) return 'more'
        this.steps++
        if (this.packed === null) this.field()
        else this.packed.read(this, this.target)
      }
    } catch (error) {
      if (error === malformed) return 'malformed'
      throw error
    }
  }

  private field(): void {
    this.tagStart = this.position
    const tag = this.varint()
    this.lengthStart = this.position
    const wireType = tag & 7
    const number = Math.floor(tag / 8)
    if (number === 0 || tag > 0xffffffff) throw malformed
    const known = this.table.find(number)
    if (known === undefined) this.skip(wireType)
    else if (known.wireType === wireType) known.read(this, this.target)
    else if (known.packed && wireType === wireLengths) {
      const outerEnd = this.end
      this.end = this.lengthEnd()
      this.enter(this.table, this.target, outerEnd)
      this.packed = known
    } else this.skip(wireType)
  }

  /** The fields up to `end` are those of `table`; those after it, up to `outerEnd`, are those of the message at hand. */
  enter<T>(table: FieldTable<T>, target: T, outerEnd: number): void {
    const { outer } = this
    if (outer.length === maxDepth) throw malformed
    outer.push({ table: this.table, target: this.target, packed: this.packed, end: outerEnd })
    this.table = table as FieldTable<unknown>
    this.target = target
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
    const start = this.position
    this.position = end
    if (end - start <= longestText) return this.bytes.toString('utf8', start, end)
    this.steps += (end - start) >> 5
    return this.bytes.toString('latin1', start, end)
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
 * Reads one message at once.
 *
 * @param bytes one message, without a length before it
 * @param table what to do with each field
 * @param target is changed by the fields of the table
 * @returns null, or why the message cannot be read: `too_large` has more than `maxFields`, whatever its length in bytes.
 * `target` may have some of its values then.
 */
export function readMessage<T>(
  bytes: Buffer,
  table: FieldTable<T>,
  target: T,
): 'malformed' | 'too_large' | null {
  const state = MessageReader.readerOf(bytes, table, target).read(maxFields)
  if (state === 'complete') return null
  return state === 'more' ? 'too_large' : state
}
