/**
 * What a snapshot carries behind the weights:
 *
 *   length of the state  exposures  state, JSON  51 bytes each  weight of each  rows of other nodes
 *   4                    4          length       51 x n         n               rest
 */
import type { Controls, Saved } from './control/supplier-states.ts'
import { featureBytes } from './features.ts'
import type { Pending } from './train/pending-exposures.ts'

/** Pending exposures that a snapshot carries; of more, an even sample. */
const carried = 65_536

interface State {
  /** Milliseconds. */
  now: number
  wins: number
  /** Absent in snapshots of before. */
  settled?: number
  delays: number[]
  controls: Saved
}

/** Suppliers whose state is spelt in one go. */
const suppliersAtOnce = 50

/** In slices; `state` holds parts that say themselves what they save. */
export function* writeTail(
  state: { now: number; wins: number; settled: number; delays: object; controls: Controls },
  pending: Pending,
  heard: Uint8Array,
): Generator<undefined, Uint8Array[]> {
  const { now, wins, settled, delays, controls } = state
  const start = JSON.stringify({ now, wins, settled, delays })
  const texts = [`${start.slice(0, -1)},"controls":{"suppliers":[`]
  yield
  const suppliers = controls.saved()
  for (let at = 0; at < suppliers.length; at += suppliersAtOnce) {
    const some = suppliers.slice(at, at + suppliersAtOnce)
    texts.push((at === 0 ? '' : ',') + some.map((each) => JSON.stringify(each())).join())
    yield
  }
  texts.push(`],${JSON.stringify(controls.rest()).slice(1)}}`)
  const text = Buffer.from(texts.join(''))
  yield
  const { bytes, weights } = yield* pending.sample(carried)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(text.length, 0)
  head.writeUInt32BE(weights.length, 4)
  return [head, text, bytes, weights, heard]
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
