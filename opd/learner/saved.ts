/**
 * What a snapshot carries behind the weights:
 *
 *   length of the state  exposures  state, JSON  51 bytes each  weight of each  rows of other nodes
 *   4                    4          length       51 x n         n               rest
 */
import type { Saved } from './controls.ts'
import { featureBytes } from './features.ts'

export interface State {
  /** Milliseconds. */
  now: number
  wins: number
  delays: number[]
  controls: Saved
}

/** `state` holds parts that say themselves what they save. */
export function writeTail(
  state: Record<keyof State, unknown>,
  exposures: Uint8Array,
  weights: Uint8Array,
  heard: Uint8Array,
): Uint8Array {
  const text = Buffer.from(JSON.stringify(state))
  const head = Buffer.alloc(8)
  head.writeUInt32BE(text.length, 0)
  head.writeUInt32BE(weights.length, 4)
  return Buffer.concat([head, text, exposures, weights, heard])
}

export function readTail(bytes: Uint8Array): {
  state: State
  exposures: { bytes: Uint8Array; weight: number }[]
  heard: Uint8Array
} {
  const tail = Buffer.from(bytes)
  const [length, count] = [tail.readUInt32BE(0), tail.readUInt32BE(4)]
  const state = JSON.parse(tail.toString('utf8', 8, 8 + length)) as State
  const rest = tail.subarray(8 + length)
  const weights = rest.subarray(count * featureBytes, count * (featureBytes + 1))
  const heard = Uint8Array.from(rest.subarray(count * (featureBytes + 1)))
  const exposures = Array.from(weights, (weight, n) => ({
    bytes: Uint8Array.from(rest.subarray(n * featureBytes, (n + 1) * featureBytes)),
    weight,
  }))
  return { state, exposures, heard }
}
