/**
 * A frame: parts, their lengths before them, and a checksum of everything before it:
 *
 *   magic  length of each part  parts  CRC-32
 *   4      4 each               n      4
 */
import { crc32 } from 'node:zlib'

const wordBytes = 4
/** Bytes of one slice of copying or of a checksum: a quarter of a millisecond. */
export const sliceBytes = 2 ** 19

/** Of all pieces together. */
const lengthOf = (pieces: readonly Uint8Array[]) =>
  pieces.reduce((sum, { length }) => sum + length, 0)

/**
 * All pieces in one array, whose memory is its own.
 *
 * @param pieces copied, at once: few and small ones, or outside the bid path
 */
export function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(lengthOf(pieces)).buffer)
  let offset = 0
  for (const piece of pieces) {
    bytes.set(piece, offset)
    offset += piece.length
  }
  return bytes
}

/**
 * The bytes of an array of numbers, not copied.
 *
 * @param view its bytes are in the order of this processor
 */
export const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength)

/**
 * A view of the same bytes, not a copy.
 *
 * @param bytes written and read through it
 */
export const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array) =>
  new DataView(buffer, byteOffset, byteLength)

/**
 * Big-endian, as all numbers are except those of weights and fits.
 *
 * @param offset where the first of them begins; there must be eight bytes for each
 */
export function writeFloats(bytes: Uint8Array, offset: number, values: Float64Array): void {
  const view = viewOf(bytes)
  for (const [n, value] of values.entries()) view.setFloat64(offset + 8 * n, value)
}
/**
 * Reads numbers that `writeFloats` wrote.
 *
 * @param offset where the first of them begins
 * @param length how many
 */
export function floatsAt(bytes: Uint8Array, offset: number, length: number): Float64Array {
  const view = viewOf(bytes)
  return Float64Array.from({ length }, (_each, n) => view.getFloat64(offset + 8 * n))
}

/**
 * Returns a function that copies one part after the other. Throws if there are too few bytes.
 *
 * @param bytes of parts without anything between them
 */
export function reader(bytes: Uint8Array) {
  let offset = 0
  return (length: number): Uint8Array<ArrayBuffer> => {
    const part = new Uint8Array(bytes.subarray(offset, offset + length))
    if (part.length !== length) throw new RangeError('truncated bytes')
    offset += length
    return part
  }
}

export type Parts<Name extends string> = Record<Name, ArrayBufferView | readonly Uint8Array[]>

/**
 * A frame in pieces, made in slices of a millisecond or two.
 *
 * @param magic 32 bits
 * @param names of the parts, in their order
 * @param parts each an array of numbers, or bytes in pieces; they are not copied
 */
export function* framed<Name extends string>(
  magic: number,
  names: readonly Name[],
  parts: Parts<Name>,
): Generator<undefined, Uint8Array[]> {
  const inOrder = names.map((name): readonly Uint8Array[] => {
    const part = parts[name]
    return ArrayBuffer.isView(part) ? [bytesOf(part)] : part
  })
  const head = Buffer.alloc(wordBytes * (1 + names.length))
  for (const [n, value] of [magic, ...inOrder.map(lengthOf)].entries())
    head.writeUInt32BE(value, wordBytes * n)
  const pieces = [head, ...inOrder.flat()]
  let sum = 0
  for (const piece of pieces)
    for (let index = 0; index < piece.length; index += sliceBytes) {
      yield
      sum = crc32(piece.subarray(index, index + sliceBytes), sum)
    }
  const end = Buffer.alloc(wordBytes)
  end.writeUInt32BE(sum)
  return [...pieces, end]
}

/**
 * The parts of a frame as views, in slices of a millisecond or two; null: damaged, truncated, or not such a frame.
 *
 * @param names of the parts, in their order
 */
export function* unframing<Name extends string>(
  magic: number,
  names: readonly Name[],
  bytes: Uint8Array,
): Generator<undefined, Record<Name, Uint8Array> | null> {
  const view = viewOf(bytes)
  const headBytes = wordBytes * (1 + names.length)
  const end = bytes.length - wordBytes
  if (end < headBytes || view.getUint32(0) !== magic) return null
  const buffer = bytesOf(bytes)
  let offset = headBytes
  const parts = names.map((name, n) => {
    const from = offset
    offset += view.getUint32(wordBytes * (1 + n))
    return [name, buffer.subarray(from, Math.min(offset, end))]
  })
  if (offset !== end) return null
  let sum = 0
  for (let index = 0; index < end; index += sliceBytes) {
    sum = crc32(buffer.subarray(index, Math.min(index + sliceBytes, end)), sum)
    yield
  }
  return view.getUint32(end) === sum ? Object.fromEntries(parts) : null
}
