/**
 * Deltas, shared curves and snapshots as bytes. Their frames contain
 *
 *            body     tail
 *   delta    rows     records of suppliers
 *   curve    weights  length of the fit  last fit  sums of deltas
 *                     4                  n         rest
 *   snapshot weights  lengths  state, JSON  exposures  weights  rows of other nodes  last fit  settled rows  outcomes  least  delays  sums of deltas  pending
 *                     32       n            51 x n     n        n                    n         51 x n        n         4 x n  n       n               n
 *
 * `pending`: the whole state of the pending exposures, if it has at most `sampled` slots; otherwise `exposures` is a sample.
 */

import { drained } from '../base/slices.ts'
import type { Saved, SupplierStates } from './control/supplier-states.ts'
import { slotCount, type Weights } from './curve/weights.ts'
import { featureBytes } from './features.ts'
import {
  bytesOf,
  framed,
  joined,
  lengthOf,
  sliceBytes,
  unframed,
  unframing,
  viewOf,
  views,
} from './frame.ts'
import { readFitted } from './refit/job.ts'
import { DeltaSums } from './train/delta-sums.ts'
import type { Saved as Trained, Trainer } from './train/trainer.ts'
import { isRows } from './train/update-log.ts'

export class DeltaError extends Error {
  override name = 'DeltaError'
}
export class SnapshotError extends Error {
  override name = 'SnapshotError'
  /** Whether another version wrote it: a first start after an upgrade meets such snapshots. */
  readonly isOtherVersion: boolean

  constructor(message: string, isOtherVersion = false) {
    super(message)
    this.isOtherVersion = isOtherVersion
  }
}

const [deltaMagic, curveMagic, snapshotMagic] = [0x62774439, 0x62774333, 0x62775338]

/** Pieces, made in slices of a millisecond or two. */
type Pieces = Generator<undefined, Uint8Array[]>

export const writeDelta = (rows: Uint8Array, records: Uint8Array): Uint8Array =>
  joined(drained(framed(deltaMagic, rows.length, rows, [records])))

/** null: damaged, truncated, or not a delta. */
export function readDelta(delta: Uint8Array): { rows: Uint8Array; records: Uint8Array } | null {
  const read = unframed(deltaMagic, delta, 1)
  return read !== null && isRows(read.body) ? { rows: read.body, records: read.tail } : null
}

/** The weights are copied immediately before `tail` starts. */
function* writeWeights(magic: number, { both }: Weights, tail: Pieces): Pieces {
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(both.byteLength).buffer)
  // The first write of each memory page takes ten times as long as the copy.
  for (let index = 0; index < bytes.length; index += sliceBytes) {
    bytes.fill(0, index, index + sliceBytes)
    yield
  }
  bytes.set(bytesOf(both))
  return yield* framed(magic, both.length, bytes, yield* tail)
}

interface ReadWeights {
  weights: Float32Array
  /** A view of the bytes. */
  tail: Uint8Array
}

/** In slices of a millisecond or two. null: damaged, truncated, of another length, or with a number that is not finite. */
function* readingWeights(
  magic: number,
  bytes: Uint8Array,
): Generator<undefined, ReadWeights | null> {
  const read = yield* unframing(magic, bytes, 4)
  if (read === null || read.body.length !== 8 * slotCount) return null
  const weights = new Float32Array(2 * slotCount)
  const copy = bytesOf(weights)
  const step = sliceBytes / 4
  for (let from = 0; from < weights.length; from += step) {
    yield
    copy.set(read.body.subarray(4 * from, 4 * (from + step)), 4 * from)
    // 0 times a finite number is 0. `every` with a callback takes eight times as long.
    let sum = 0
    for (let index = from; index < from + step; index++) sum += 0 * weights[index]!
    if (sum !== 0) return null
  }
  return { weights, tail: read.tail }
}

function lengthsOf(parts: readonly { length: number }[]): Buffer {
  const lengths = Buffer.alloc(4 * parts.length)
  for (const [n, { length }] of parts.entries()) lengths.writeUInt32BE(length, 4 * n)
  return lengths
}

/** What the weights were trained with: the result of the last refit, and the sums of the deltas. */
export interface Origin {
  fitted: Uint8Array
  deltaSums: DeltaSums
}

/** `take` is called when the weights are copied. */
export const writeCurve = (weights: Weights, take: () => Origin): Pieces =>
  writeWeights(curveMagic, weights, curveTail(take))

function* curveTail(take: () => Origin): Pieces {
  const { fitted, deltaSums } = take()
  const sums = deltaSums.saving()
  yield
  return [lengthsOf([fitted]), fitted, ...(yield* sums)]
}

interface ReadCurve extends Origin {
  weights: Float32Array
}

/** In slices. Throws `DeltaError` if it is damaged. */
export function* readingCurve(bytes: Uint8Array): Generator<undefined, ReadCurve> {
  const read = yield* readingWeights(curveMagic, bytes)
  const tail = read?.tail ?? new Uint8Array(0)
  const end = tail.length < 4 ? Number.POSITIVE_INFINITY : 4 + viewOf(tail).getUint32(0)
  const fitted = tail.slice(4, end)
  const isDamaged = end > tail.length || (fitted.length > 0 && readFitted(fitted) === null)
  if (read === null || isDamaged)
    throw new DeltaError('a shared curve is damaged, or of another version')
  return { weights: read.weights, fitted, deltaSums: new DeltaSums(tail.subarray(end)) }
}

/** Pending exposures that a snapshot contains; of more, an even sample. */
const sampled = 65_536
/** Suppliers whose state is written as JSON in one slice. */
const suppliersAtOnce = 50

type State = Trained['state'] & { controls: Saved }

/** `take` is called when the weights are copied. */
export const writeSnapshot = (
  weights: Weights,
  trainer: Trainer,
  suppliers: SupplierStates,
  take: () => Origin,
): Pieces => writeWeights(snapshotMagic, weights, snapshotTail(trainer, suppliers, take))

function* snapshotTail(trainer: Trainer, suppliers: SupplierStates, take: () => Origin): Pieces {
  const { fitted, deltaSums } = take()
  const { now, silence, delays, pending, received, rows } = trainer
  const [copyingRows, writingSums] = [received.rows.saving(), deltaSums.saving()]
  const { settled, early } = rows.saved()
  const refitted = trainer.refitted
  const state = { now, silence: silence.saved(), refitted, settled, early }
  const counts = bytesOf(delays.saved())
  yield
  const waiting = yield* copyingRows
  const sums = yield* writingSums
  const text = yield* stateText(JSON.stringify(state), suppliers)
  yield
  const saved = (yield* pending.saving(sampled)) ?? []
  const { bytes, weights } = yield* pending.sample(saved.length > 0 ? 0 : sampled)
  yield
  const { features, outcome, least } = yield* rows.copying()
  const [ofSums, ofPending] = [sums, saved].map((pieces) => ({ length: lengthOf(pieces) }))
  const lengths = lengthsOf([text, weights, waiting, fitted, outcome, counts, ofSums!, ofPending!])
  const settledRows = [features, outcome, bytesOf(least)]
  return [lengths, text, bytes, weights, waiting, fitted, ...settledRows, counts, ...sums, ...saved]
}

function* stateText(state: string, suppliers: SupplierStates): Generator<undefined, Buffer> {
  const texts = [`${state.slice(0, -1)},"controls":{"suppliers":[`]
  yield
  const saved = suppliers.saved()
  for (let index = 0; index < saved.length; index += suppliersAtOnce) {
    const some = saved.slice(index, index + suppliersAtOnce)
    texts.push((index === 0 ? '' : ',') + some.map((toState) => JSON.stringify(toState())).join())
    yield
  }
  texts.push(`],${JSON.stringify(suppliers.rest()).slice(1)}}`)
  return Buffer.from(texts.join(''))
}

interface Snapshot extends ReadCurve, Trained {
  state: State
}

/**
 * Whether a snapshot was refused for its version, so that a node of that version can still read it.
 *
 * @param error what `readingSnapshot` threw
 */
export const isOfOtherVersion = (error: unknown): boolean =>
  error instanceof SnapshotError && error.isOtherVersion

/**
 * Whether the bytes begin with the magic number of another version: its last byte is the version.
 *
 * @param magic of this version, 32 bits
 */
export function beginsAsOtherVersion(magic: number, bytes: Uint8Array): boolean {
  if (bytes.length < 4) return false
  const first = viewOf(bytes).getUint32(0)
  return first !== magic && first >>> 8 === magic >>> 8
}

/** In slices. The rows are views of the bytes. Throws `SnapshotError` if it is damaged, or of another version. */
export function* readingSnapshot(bytes: Uint8Array): Generator<undefined, Snapshot> {
  const read = yield* readingWeights(snapshotMagic, bytes)
  if (read === null && beginsAsOtherVersion(snapshotMagic, bytes))
    throw new SnapshotError('a snapshot is of another version', true)
  if (read === null) throw new SnapshotError('a snapshot is damaged')
  const { weights, tail } = read
  const view = viewOf(tail)
  const lengths = Array.from({ length: 8 }, (_each, n) => view.getUint32(4 * n))
  const [text, count, received, fitted, rows, delays, sums, pending] = lengths
  const next = views(tail, 4 * lengths.length)
  yield
  const state = JSON.parse(Buffer.from(next(text!)).toString()) as State
  yield
  const features = next(count! * featureBytes)
  const exposures = Array.from(next(count!), (weight, n) => ({
    bytes: features.slice(n * featureBytes, (n + 1) * featureBytes),
    weight,
  }))
  yield
  return {
    weights,
    state,
    exposures,
    received: next(received!).slice(),
    fitted: next(fitted!).slice(),
    rows: {
      features: next(rows! * featureBytes),
      outcome: next(rows!),
      least: new Float32Array(next(4 * rows!).slice().buffer),
    },
    delays: new Float64Array(next(delays!).slice().buffer),
    deltaSums: new DeltaSums(next(sums!)),
    pending: next(pending!),
  }
}
