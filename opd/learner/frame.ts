/**
 * A frame: bytes between a head and a checksum of everything before it:
 *
 *   magic  units of the body  length of the tail  body  tail  CRC-32
 *   4      4                  4                   n     n     4
 */
import { crc32 } from 'node:zlib'
import { drained } from '../base/slices.ts'

const headBytes = 12
const sealBytes = 4
/** Bytes of one slice of copying or of a checksum: a quarter of a millisecond. */
export const sliceBytes = 2 ** 19

/** Of all pieces together. */
export const lengthOf = (pieces: readonly Uint8Array[]) =>
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
 * Returns a function that finds one part after the other. Parts begin at multiples of `alignment`. Throws if there are too few
 * bytes.
 */
export function views(bytes: Uint8Array, from: number, alignment = 1) {
  let offset = from
  return (length: number): Uint8Array => {
    const part = bytes.subarray(offset, offset + length)
    if (part.length !== length) throw new RangeError('truncated bytes')
    offset += Math.ceil(length / alignment) * alignment
    return part
  }
}

/**
 * `views` whose parts are copies.
 *
 * @param from where the first part begins
 * @param alignment parts begin at multiples of it
 */
export function reader(bytes: Uint8Array, from: number, alignment = 1) {
  const next = views(bytes, from, alignment)
  return (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(next(length))
}

/** A frame in pieces, made in slices of a millisecond or two. */
export function* framed(
  magic: number,
  units: number,
  body: Uint8Array,
  tail: readonly Uint8Array[],
): Generator<undefined, Uint8Array[]> {
  const head = Buffer.alloc(headBytes)
  for (const [n, value] of [magic, units, lengthOf(tail)].entries())
    head.writeUInt32BE(value, 4 * n)
  const pieces = [head, body, ...tail]
  let sum = 0
  for (const piece of pieces)
    for (let index = 0; index < piece.length; index += sliceBytes) {
      yield
      sum = crc32(piece.subarray(index, index + sliceBytes), sum)
    }
  const end = Buffer.alloc(sealBytes)
  end.writeUInt32BE(sum)
  return [...pieces, end]
}

interface Parts {
  body: Uint8Array
  tail: Uint8Array
}

/**
 * Views of body and tail, in slices of a millisecond or two; null: damaged, truncated, or not such a frame. `unit`: bytes of a
 * unit of the body.
 */
export function* unframing(
  magic: number,
  bytes: Uint8Array,
  unit: number,
): Generator<undefined, Parts | null> {
  if (bytes.length < headBytes + sealBytes) return null
  const view = viewOf(bytes)
  const end = headBytes + view.getUint32(4) * unit
  const sealAt = bytes.length - sealBytes
  if (view.getUint32(0) !== magic || end + view.getUint32(8) !== sealAt) return null
  const buffer = bytesOf(bytes)
  let sum = 0
  for (let index = 0; index < sealAt; index += sliceBytes) {
    sum = crc32(buffer.subarray(index, Math.min(index + sliceBytes, sealAt)), sum)
    yield
  }
  if (view.getUint32(sealAt) !== sum) return null
  return { body: buffer.subarray(headBytes, end), tail: buffer.subarray(end, sealAt) }
}

/** Copies of body and tail, as `unframing` finds them. */
export function unframed(magic: number, bytes: Uint8Array, unit: number): Parts | null {
  const parts = drained(unframing(magic, bytes, unit))
  return parts && { body: parts.body.slice(), tail: parts.tail.slice() }
}
