/**
 * Sums of evidence by supplier, as deltas carry them:
 *
 *   supplier  sums
 *   4         8 x 84
 */
import { floatsAt, viewOf, writeFloats } from '../frame.ts'
import { evidenceWidth } from './kept.ts'

const recordBytes = 4 + 8 * evidenceWidth

export function writeRecords(records: readonly (readonly [number, Float64Array])[]): Uint8Array {
  const bytes = new Uint8Array(records.length * recordBytes)
  for (const [n, [supplier, sums]] of records.entries()) {
    viewOf(bytes).setUint32(n * recordBytes, supplier)
    writeFloats(bytes, n * recordBytes + 4, sums)
  }
  return bytes
}

/** What is no record, or holds a number that is none, is left out. */
export function* readRecords(bytes: Uint8Array): Generator<[number, Float64Array]> {
  for (let at = 0; at + recordBytes <= bytes.length; at += recordBytes) {
    const sums = floatsAt(bytes, at + 4, evidenceWidth)
    if (sums.every(Number.isFinite)) yield [viewOf(bytes).getUint32(at), sums]
  }
}
