/** Deltas and snapshots as bytes: a head, rows of (kind and slot, a, b) by columns, a checksum. */
import { crc32 } from 'node:zlib'
import { slotCount } from './weights.ts'

export class DeltaError extends Error {
  override name = 'DeltaError'
}
export class SnapshotError extends Error {
  override name = 'SnapshotError'
}

const rowBytes = 12
const headBytes = 12

/** Information on weights, row by row in three columns: no object a row, deltas have tens of thousands. */
export interface Rows {
  /** Kind (which effect the weight belongs to, from 1: it says the prior) times 2^24, and slot. */
  places: Uint32Array
  /** What 1/v and m/v grew by. */
  a: Float32Array
  b: Float32Array
}

export function writeRows(magic: number, { places, a, b }: Rows, tail: Uint8Array): Uint8Array {
  const count = places.length
  const bytes = new Uint8Array(headBytes + count * rowBytes + tail.length + 4)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic)
  view.setUint32(4, count)
  view.setUint32(8, tail.length)
  new Uint32Array(bytes.buffer, headBytes, count).set(places)
  new Float32Array(bytes.buffer, headBytes + 4 * count, count).set(a)
  new Float32Array(bytes.buffer, headBytes + 8 * count, count).set(b)
  bytes.set(tail, headBytes + count * rowBytes)
  view.setUint32(bytes.length - 4, crc32(bytes.subarray(0, bytes.length - 4)))
  return bytes
}

/** null: damaged, cut, or something else. */
export function readRows(
  magic: number,
  bytes: Uint8Array,
): { rows: Rows; tail: Uint8Array } | null {
  if (bytes.length < headBytes + 4) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const count = view.getUint32(4)
  const tailLength = view.getUint32(8)
  if (view.getUint32(0) !== magic) return null
  if (headBytes + count * rowBytes + tailLength + 4 !== bytes.length) return null
  if (view.getUint32(bytes.length - 4) !== crc32(bytes.subarray(0, bytes.length - 4))) return null
  // A copy, so that the columns are aligned.
  const { buffer } = bytes.slice(headBytes, headBytes + count * rowBytes)
  const rows = {
    places: new Uint32Array(buffer, 0, count),
    a: new Float32Array(buffer, 4 * count, count),
    b: new Float32Array(buffer, 8 * count, count),
  }
  for (let n = 0; n < count; n++) {
    const place = rows.places[n]!
    if (place < 2 ** 24 || place % 2 ** 24 >= slotCount) return null
    if (!Number.isFinite(rows.a[n]!) || !Number.isFinite(rows.b[n]!)) return null
  }
  return { rows, tail: bytes.slice(bytes.length - 4 - tailLength, bytes.length - 4) }
}

/** Bytes behind a head: magic, their length, the tail's length; the tail and a checksum at the end. */
export function writeTold(magic: number, told: Uint8Array, tail: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(headBytes + told.length + tail.length + 4)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic)
  view.setUint32(4, told.length)
  view.setUint32(8, tail.length)
  bytes.set(told, headBytes)
  bytes.set(tail, headBytes + told.length)
  view.setUint32(bytes.length - 4, crc32(bytes.subarray(0, bytes.length - 4)))
  return bytes
}

/** null: damaged, cut, or something else. */
export function readTold(
  magic: number,
  bytes: Uint8Array,
): { told: Uint8Array; tail: Uint8Array } | null {
  if (bytes.length < headBytes + 4) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const length = view.getUint32(4)
  if (view.getUint32(0) !== magic) return null
  if (headBytes + length + view.getUint32(8) + 4 !== bytes.length) return null
  if (view.getUint32(bytes.length - 4) !== crc32(bytes.subarray(0, bytes.length - 4))) return null
  const told = bytes.slice(headBytes, headBytes + length)
  return { told, tail: bytes.slice(headBytes + length, bytes.length - 4) }
}

/** Bytes that are cleared or summed in one go: a quarter of a millisecond. */
const slice = 2 ** 19

/**
 * A whole array behind a head: magic, its length, the tail's length; the tail and a checksum at the end. In pieces, made in
 * slices of a millisecond or two: the array is copied when `makeTail` is called.
 */
export function* writeDense(
  magic: number,
  { buffer, byteOffset, byteLength, length }: Float32Array,
  makeTail: () => Generator<undefined, Uint8Array[]>,
): Generator<undefined, Uint8Array[]> {
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(headBytes + byteLength).buffer)
  // Pages are handed out as they are touched, which takes ten times as long as the copy.
  for (let at = 0; at < bytes.length; at += slice) {
    bytes.fill(0, at, at + slice)
    yield
  }
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength), headBytes)
  const tail = yield* makeTail()
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic)
  view.setUint32(4, length)
  view.setUint32(
    8,
    tail.reduce((sum, piece) => sum + piece.length, 0),
  )
  let sum = 0
  for (const piece of [bytes, ...tail])
    for (let at = 0; at < piece.length; at += slice) {
      yield
      sum = crc32(piece.subarray(at, at + slice), sum)
    }
  const end = Buffer.alloc(4)
  end.writeUInt32BE(sum)
  return [bytes, ...tail, end]
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(
    Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0)).buffer,
  )
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}

/** null: damaged, cut, of another size, or with a number that is none. */
export function readDense(
  magic: number,
  bytes: Uint8Array,
  count: number,
  length: number,
): { arrays: Float32Array[]; tail: Uint8Array } | null {
  if (bytes.length < headBytes + 4) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const tailLength = view.getUint32(8)
  if (view.getUint32(0) !== magic || view.getUint32(4) !== length) return null
  if (headBytes + count * length * 4 + tailLength + 4 !== bytes.length) return null
  if (view.getUint32(bytes.length - 4) !== crc32(bytes.subarray(0, bytes.length - 4))) return null
  const arrays = Array.from({ length: count }, (_each, n) => {
    const from = headBytes + n * length * 4
    return new Float32Array(bytes.slice(from, from + length * 4).buffer)
  })
  if (!arrays.every((array) => array.every(Number.isFinite))) return null
  return { arrays, tail: bytes.slice(bytes.length - 4 - tailLength, bytes.length - 4) }
}
