/** Deltas and snapshots as bytes: a head, rows of (parameter and slot, a, b), a checksum. */
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

export interface Row {
  /** Which effect the weight belongs to, from 1: it says the prior. */
  kind: number
  slot: number
  a: number
  b: number
}

export function writeRows(magic: number, rows: readonly Row[], tail: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(headBytes + rows.length * rowBytes + tail.length + 4)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic)
  view.setUint32(4, rows.length)
  view.setUint32(8, tail.length)
  let at = headBytes
  for (const { kind, slot, a, b } of rows) {
    view.setUint32(at, kind * 2 ** 24 + slot)
    view.setFloat32(at + 4, a)
    view.setFloat32(at + 8, b)
    at += rowBytes
  }
  bytes.set(tail, at)
  view.setUint32(bytes.length - 4, crc32(bytes.subarray(0, bytes.length - 4)))
  return bytes
}

/** null: damaged, cut, or something else. */
export function readRows(
  magic: number,
  bytes: Uint8Array,
): { rows: Row[]; tail: Uint8Array } | null {
  if (bytes.length < headBytes + 4) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const count = view.getUint32(4)
  const tailLength = view.getUint32(8)
  if (view.getUint32(0) !== magic) return null
  if (headBytes + count * rowBytes + tailLength + 4 !== bytes.length) return null
  if (view.getUint32(bytes.length - 4) !== crc32(bytes.subarray(0, bytes.length - 4))) return null
  const rows: Row[] = []
  for (let n = 0, at = headBytes; n < count; n++, at += rowBytes) {
    const place = view.getUint32(at)
    const row = {
      kind: Math.floor(place / 2 ** 24),
      slot: place % 2 ** 24,
      a: view.getFloat32(at + 4),
      b: view.getFloat32(at + 8),
    }
    const sound = row.slot < slotCount && Number.isFinite(row.a) && Number.isFinite(row.b)
    if (!sound || row.kind < 1) return null
    rows.push(row)
  }
  return { rows, tail: bytes.slice(bytes.length - 4 - tailLength, bytes.length - 4) }
}

/** Whole arrays behind a head: magic, their length, the tail's length; the tail and a checksum at the end. */
export function writeDense(
  magic: number,
  arrays: readonly Float32Array[],
  tail: Uint8Array,
): Uint8Array {
  const arrayBytes = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const bytes = new Uint8Array(headBytes + arrayBytes + tail.length + 4)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, magic)
  view.setUint32(4, arrays[0]?.length ?? 0)
  view.setUint32(8, tail.length)
  let at = headBytes
  for (const { buffer, byteOffset, byteLength } of arrays) {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at)
    at += byteLength
  }
  bytes.set(tail, at)
  view.setUint32(bytes.length - 4, crc32(bytes.subarray(0, bytes.length - 4)))
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
