/**
 * What a shared curve carries behind the weights:
 *
 *   length of the fit  last fit  sums of deltas
 *   4                  n         rest
 */
import { readFitted } from './refit/job.ts'
import { DeltaSums } from './train/delta-sums.ts'

export function writeCurveTail(fitted: Uint8Array, deltaSums: DeltaSums): Uint8Array[] {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(fitted.length)
  return [head, fitted, deltaSums.bytes]
}

/** null: damaged. */
export function readCurveTail(
  bytes: Uint8Array,
): { fitted: Uint8Array; deltaSums: DeltaSums } | null {
  if (bytes.length < 4) return null
  const tail = Buffer.from(bytes)
  const end = 4 + tail.readUInt32BE(0)
  if (end > tail.length) return null
  const fitted = new Uint8Array(tail.subarray(4, end))
  if (fitted.length > 0 && readFitted(fitted) === null) return null
  return { fitted, deltaSums: new DeltaSums(tail.subarray(end)) }
}
