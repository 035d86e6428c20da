/**
 * What a snapshot carries behind the weights:
 *
 *   lengths  state, JSON  exposures  weights  rows of other nodes  last fit  settled rows  outcomes  lowest winning prices
 *   20       n            51 x n     n        n                    n         51 x n        n         4 x n
 */
import type { Controls, Saved } from './control/supplier-states.ts'
import { slotCount } from './curve/weights.ts'
import { featureBytes } from './features.ts'
import type { SettledRows } from './refit/settled-rows.ts'
import { readDense, SnapshotError } from './snapshot.ts'
import { DeltaSums } from './train/delta-sums.ts'
import type { Pending } from './train/pending-exposures.ts'
import { isRows } from './train/update-log.ts'

export const snapshotMagic = 0x62775336

/** Pending exposures that a snapshot carries; of more, an even sample. */
const carried = 65_536

interface State {
  /** Milliseconds. */
  now: number
  wins: number
  settled: number
  delays: number[]
  /** Sums of deltas in base64; absent in snapshots of earlier versions. */
  told?: string
  controls: Saved
}

/** Suppliers whose state is spelt in one go. */
const suppliersAtOnce = 50

/** In slices; `state` holds parts that say themselves what they save. */
export function* writeTail(
  state: Omit<State, 'delays' | 'controls'> & { delays: object; controls: Controls },
  pending: Pending,
  received: Uint8Array,
  fitted: Uint8Array,
  rows: SettledRows,
): Generator<undefined, Uint8Array[]> {
  const { controls, ...rest } = state
  const start = JSON.stringify(rest)
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
  yield
  const { features, outcome, least } = yield* rows.copying()
  const head = Buffer.alloc(20)
  const lengths = [text.length, weights.length, received.length, fitted.length, outcome.length]
  for (const [n, length] of lengths.entries()) head.writeUInt32BE(length, 4 * n)
  const prices = new Uint8Array(least.buffer)
  return [head, text, bytes, weights, received, fitted, features, outcome, prices]
}

interface Snapshot {
  weights: Float32Array
  state: State
  deltaSums: DeltaSums
  exposures: { bytes: Uint8Array; weight: number }[]
  /** Whole rows. */
  received: Uint8Array
  fitted: Uint8Array
  rows: { features: Uint8Array; outcome: Uint8Array; least: Float32Array }
}

export function readSnapshot(bytes: Uint8Array): Snapshot {
  const read = readDense(snapshotMagic, bytes, 2 * slotCount)
  if (read === null) throw new SnapshotError('a snapshot that is damaged, or of another version')
  const tail = Buffer.from(read.tail)
  let at = 20
  const [text, count, received, fitted, rows] = [0, 4, 8, 12, 16].map((n) => tail.readUInt32BE(n))
  // Copies, so that numbers in them are aligned.
  const take = (length: number) => {
    at += length
    return Uint8Array.from(tail.subarray(at - length, at))
  }
  const state = JSON.parse(Buffer.from(take(text!)).toString()) as State
  const found = take(count! * featureBytes)
  const exposures = Array.from(take(count!), (weight, n) => ({
    bytes: found.slice(n * featureBytes, (n + 1) * featureBytes),
    weight,
  }))
  const waiting = take(received!)
  return {
    weights: read.array,
    state,
    deltaSums: new DeltaSums(Buffer.from(state.told ?? '', 'base64')),
    exposures,
    received: isRows(waiting) ? waiting : new Uint8Array(0),
    fitted: take(fitted!),
    rows: {
      features: take(rows! * featureBytes),
      outcome: take(rows!),
      least: new Float32Array(take(4 * rows!).buffer),
    },
  }
}
