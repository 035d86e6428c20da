/** Deltas and snapshots as bytes: a head, a body, a tail, a checksum. */
import { crc32 } from 'node:zlib'

export class DeltaError extends Error {
  override name = 'DeltaError'
}
export class SnapshotError extends Error {
  override name = 'SnapshotError'
}

const headBytes = 12

/** The end of what is sealed: a checksum of all before it. */
const sealBytes = 4
const sumOf = (bytes: Uint8Array) => crc32(bytes.subarray(0, bytes.length - sealBytes))

/** Magic, how many units the body has, the tail's length; the body, which `fill` writes, the tail, a checksum. */
function framed(
  magic: number,
  units: number,
  bodyLength: number,
  tail: Uint8Array,
  fill: (bytes: Uint8Array) => void,
): Uint8Array {
  const bytes = new Uint8Array(headBytes + bodyLength + tail.length + sealBytes)
  const view = new DataView(bytes.buffer)
  writeHead(view, magic, units, tail.length)
  fill(bytes)
  bytes.set(tail, headBytes + bodyLength)
  view.setUint32(bytes.length - sealBytes, sumOf(bytes))
  return bytes
}

function writeHead(view: DataView, magic: number, units: number, tailLength: number): void {
  view.setUint32(0, magic)
  view.setUint32(4, units)
  view.setUint32(8, tailLength)
}

/** Units, body and tail of what is framed, as copies; null: damaged, cut, or something else. `unit`: bytes of one. */
function opened(
  magic: number,
  bytes: Uint8Array,
  unit: number,
): { units: number; body: Uint8Array<ArrayBuffer>; tail: Uint8Array } | null {
  if (bytes.length < headBytes + sealBytes) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const units = view.getUint32(4)
  const end = headBytes + units * unit
  const sealAt = bytes.length - sealBytes
  if (view.getUint32(0) !== magic || end + view.getUint32(8) !== sealAt) return null
  if (view.getUint32(sealAt) !== sumOf(bytes)) return null
  return { units, body: bytes.slice(headBytes, end), tail: bytes.slice(end, sealAt) }
}

export const writeDelta = (magic: number, rows: Uint8Array, tail: Uint8Array): Uint8Array =>
  framed(magic, rows.length, rows.length, tail, (bytes) => bytes.set(rows, headBytes))

/** null: damaged, cut, or something else. */
export function readDelta(
  magic: number,
  bytes: Uint8Array,
): { rows: Uint8Array; tail: Uint8Array } | null {
  const read = opened(magic, bytes, 1)
  return read === null ? null : { rows: read.body, tail: read.tail }
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
  const tailLength = tail.reduce((sum, piece) => sum + piece.length, 0)
  writeHead(new DataView(bytes.buffer), magic, length, tailLength)
  let sum = 0
  for (const piece of [bytes, ...tail])
    for (let at = 0; at < piece.length; at += slice) {
      yield
      sum = crc32(piece.subarray(at, at + slice), sum)
    }
  const end = Buffer.alloc(sealBytes)
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

/** null: damaged, cut, of another length, or with a number that is none. */
export function readDense(magic: number, bytes: Uint8Array, length: number): Dense | null {
  const reading = readingDense(magic, bytes, length)
  for (;;) {
    const { done, value } = reading.next()
    if (done) return value
  }
}

/** `every` with a callback takes eight times as long. */
function allFinite(array: Float32Array, from: number, to: number): boolean {
  let sum = 0
  // 0 times a number is 0, unless it is infinite or none.
  for (let at = from; at < to; at++) sum += 0 * array[at]!
  return sum === 0
}

interface Dense {
  array: Float32Array
  tail: Uint8Array
}

/** The same in slices of a millisecond or two. */
export function* readingDense(
  magic: number,
  bytes: Uint8Array,
  length: number,
): Generator<undefined, Dense | null> {
  const read = opened(magic, bytes, 4)
  if (read === null || read.units !== length) return null
  const array = new Float32Array(read.body.buffer)
  const numbers = slice / 4
  for (let at = 0; at < array.length; at += numbers) {
    yield
    if (!allFinite(array, at, Math.min(array.length, at + numbers))) return null
  }
  return { array, tail: read.tail }
}
