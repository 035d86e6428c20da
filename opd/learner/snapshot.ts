/** Deltas, shared curves and snapshots as frames. Their parts are listed below. */

import { drained } from '../base/slices.ts'
import type { Saved, SupplierStates } from './control/supplier-states.ts'
import { slotCount, type Weights } from './curve/weights.ts'
import { featureBytes } from './features.ts'
import { bytesOf, framed, joined, type Parts, sliceBytes, unframing, viewOf } from './frame.ts'
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

const [deltaMagic, curveMagic, snapshotMagic] = [0x6277443a, 0x62774334, 0x62775339]
const deltaParts = ['rows', 'records'] as const
const curveParts = ['weights', 'fitted', 'sums'] as const
/**
 * `sums`: of deltas. `state`: JSON. `received`: rows of other nodes. `rows`: the settled ones, with `outcome` and `least`.
 * `pending`: the whole state of the pending exposures, if it has at most `sampled` slots; otherwise `exposures` is a sample of
 * them, each of which represents a number of bids (`counts`).
 */
const snapshotParts = [
  ...curveParts,
  ...(['state', 'exposures', 'counts', 'pending', 'received'] as const),
  ...(['rows', 'outcome', 'least', 'delays'] as const),
] as const

/** Pieces, made in slices of a millisecond or two. */
type Pieces = Generator<undefined, Uint8Array[]>

export const writeDelta = (rows: Uint8Array, records: Uint8Array): Uint8Array =>
  joined(drained(framed(deltaMagic, deltaParts, { rows, records })))

/** Copies of rows and records. null: damaged, truncated, or not a delta. */
export function readDelta(delta: Uint8Array): { rows: Uint8Array; records: Uint8Array } | null {
  const read = drained(unframing(deltaMagic, deltaParts, delta))
  if (read === null || !isRows(read.rows)) return null
  return { rows: read.rows.slice(), records: read.records.slice() }
}

/** The weights are copied immediately before `rest`, which makes the other parts, starts. */
function* writeWeights<Name extends string>(
  magic: number,
  names: readonly (Name | 'weights')[],
  { both }: Weights,
  rest: Generator<undefined, Parts<Name>>,
): Pieces {
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(both.byteLength).buffer)
  // The first write of each memory page takes ten times as long as the copy.
  for (let index = 0; index < bytes.length; index += sliceBytes) {
    bytes.fill(0, index, index + sliceBytes)
    yield
  }
  bytes.set(bytesOf(both))
  return yield* framed(magic, names, { ...(yield* rest), weights: bytes })
}

/** In slices of a millisecond or two. null: of another length, or with a number that is not finite. */
function* readingWeights(bytes: Uint8Array): Generator<undefined, Float32Array | null> {
  if (bytes.length !== 8 * slotCount) return null
  const weights = new Float32Array(2 * slotCount)
  const copy = bytesOf(weights)
  const step = sliceBytes / 4
  for (let from = 0; from < weights.length; from += step) {
    yield
    copy.set(bytes.subarray(4 * from, 4 * (from + step)), 4 * from)
    // 0 times a finite number is 0. `every` with a callback takes eight times as long.
    let sum = 0
    for (let index = from; index < from + step; index++) sum += 0 * weights[index]!
    if (sum !== 0) return null
  }
  return weights
}

/** What the weights were trained with: the result of the last refit, and the sums of the deltas. */
export interface Origin {
  fitted: Uint8Array
  deltaSums: DeltaSums
}

/** `take` is called when the weights are copied. */
export const writeCurve = (weights: Weights, take: () => Origin): Pieces =>
  writeWeights(curveMagic, curveParts, weights, originParts(take))

function* originParts(take: () => Origin): Generator<undefined, Parts<'fitted' | 'sums'>> {
  const { fitted, deltaSums } = take()
  const sums = deltaSums.saving()
  yield
  return { fitted, sums: yield* sums }
}

interface ReadCurve extends Origin {
  weights: Float32Array
}

/** In slices. Throws `DeltaError` if it is damaged. */
export function* readingCurve(bytes: Uint8Array): Generator<undefined, ReadCurve> {
  const read = yield* unframing(curveMagic, curveParts, bytes)
  const weights = read && (yield* readingWeights(read.weights))
  if (!read || !weights || (read.fitted.length > 0 && readFitted(read.fitted) === null))
    throw new DeltaError('a shared curve is damaged, or of another version')
  return { weights, fitted: read.fitted.slice(), deltaSums: new DeltaSums(read.sums) }
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
): Pieces =>
  writeWeights(snapshotMagic, snapshotParts, weights, stateParts(trainer, suppliers, take))

function* stateParts(trainer: Trainer, suppliers: SupplierStates, take: () => Origin) {
  const origin = originParts(take)
  origin.next()
  const { now, silence, pending, received, rows, refitted } = trainer
  const waiting = received.rows.saving()
  const state = { now, silence: silence.saved(), refitted, ...rows.saved() }
  const delays = trainer.delays.saved()
  yield
  const copied = yield* waiting
  const ofOrigin = yield* origin
  const text = yield* stateText(JSON.stringify(state), suppliers)
  yield
  const saved = (yield* pending.saving(sampled)) ?? []
  const { bytes, weights } = yield* pending.sample(saved.length > 0 ? 0 : sampled)
  yield
  const { features, outcome, least } = yield* rows.copying()
  const settled = { rows: features, outcome, least }
  const waitingBids = { exposures: bytes, counts: weights, pending: saved }
  return { ...ofOrigin, ...settled, ...waitingBids, state: text, received: copied, delays }
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
  const read = yield* unframing(snapshotMagic, snapshotParts, bytes)
  const weights = read && (yield* readingWeights(read.weights))
  if (read === null && beginsAsOtherVersion(snapshotMagic, bytes))
    throw new SnapshotError('a snapshot is of another version', true)
  if (!read || !weights) throw new SnapshotError('a snapshot is damaged')
  const { exposures, counts, pending, rows: features, outcome } = read
  yield
  const state = JSON.parse(Buffer.from(read.state).toString()) as State
  yield
  return {
    ...{ weights, state, pending },
    exposures: Array.from(counts, (weight, n) => ({
      bytes: exposures.slice(n * featureBytes, (n + 1) * featureBytes),
      weight,
    })),
    received: read.received.slice(),
    fitted: read.fitted.slice(),
    rows: { features, outcome, least: new Float32Array(read.least.slice().buffer) },
    delays: new Float64Array(read.delays.slice().buffer),
    deltaSums: new DeltaSums(read.sums),
  }
}
