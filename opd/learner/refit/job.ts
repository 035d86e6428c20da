/**
 * What goes to a refit and what comes back, as bytes.
 *
 *   job     magic  rows  patience  now  length of the result before  | features | outcome | least | result before
 *   result  magic  weights  placements  families | slots | means | variances | priors | keys | firsts | shares | cumulative
 */
import { binCount, type Densities } from '../curve/price-density.ts'
import { featureBytes } from '../features.ts'

const jobMagic = 0x62774a31
const resultMagic = 0x62775231
const jobHead = 32
const resultHead = 16

export interface Job {
  features: Uint8Array
  outcome: Uint8Array
  least: Float32Array
  /** Milliseconds; a row without a win that is younger may still be won. */
  now: number
  patience: number
  before: Uint8Array
}

export interface Fitted extends Densities {
  slots: Uint32Array
  means: Float32Array
  variances: Float32Array
  /** Prior variances by family, as estimated. */
  priors: Float32Array
}

/** Copies, one after the other, each at a multiple of 4. */
function packed(head: number, parts: readonly ArrayBufferView[]): Uint8Array<ArrayBuffer> {
  const lengths = parts.map(({ byteLength }) => (byteLength + 3) & -4)
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + length, head))
  let at = head
  parts.forEach((part, n) => {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), at)
    at += lengths[n]!
  })
  return bytes
}

/** Takes typed arrays out of bytes that are aligned. */
function reader(bytes: Uint8Array, head: number) {
  let at = head
  return (length: number) => {
    const part = bytes.slice(at, at + length)
    if (part.length !== length) throw new RangeError('cut')
    at += (length + 3) & -4
    return part
  }
}

export function writeJob(job: Job): Uint8Array {
  const { features, outcome, least, before } = job
  const bytes = packed(jobHead, [features, outcome, least, before])
  const view = new DataView(bytes.buffer)
  view.setUint32(0, jobMagic)
  view.setUint32(4, outcome.length)
  view.setFloat64(8, job.patience)
  view.setFloat64(16, job.now)
  view.setUint32(24, before.length)
  return bytes
}

export function readJob(bytes: Uint8Array): Job {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (bytes.length < jobHead || view.getUint32(0) !== jobMagic)
    throw new RangeError('no job of a refit')
  const rows = view.getUint32(4)
  const take = reader(bytes, jobHead)
  return {
    features: take(rows * featureBytes),
    outcome: take(rows),
    least: new Float32Array(take(4 * rows).buffer),
    patience: view.getFloat64(8),
    now: view.getFloat64(16),
    before: take(view.getUint32(24)),
  }
}

export function writeFitted(fitted: Fitted): Uint8Array {
  const { slots, means, variances, priors, keys, firsts, formShares, cumulative } = fitted
  const bytes = packed(resultHead, [
    slots,
    means,
    variances,
    priors,
    keys,
    firsts,
    formShares,
    cumulative,
  ])
  const view = new DataView(bytes.buffer)
  view.setUint32(0, resultMagic)
  view.setUint32(4, slots.length)
  view.setUint32(8, keys.length)
  view.setUint32(12, priors.length)
  return bytes
}

/** Whether bytes are the result of a refit, damaged or not. */
export const isRefit = (bytes: Uint8Array): boolean =>
  bytes.length >= resultHead &&
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) === resultMagic

/** null: damaged, or something else. */
export function readFitted(bytes: Uint8Array): Fitted | null {
  if (bytes.length < resultHead) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint32(0) !== resultMagic) return null
  const [weights, places, families] = [view.getUint32(4), view.getUint32(8), view.getUint32(12)]
  if (resultHead + 4 * (3 * weights + families + (3 + binCount) * places) !== bytes.length)
    return null
  const take = reader(bytes, resultHead)
  return {
    slots: new Uint32Array(take(4 * weights).buffer),
    means: new Float32Array(take(4 * weights).buffer),
    variances: new Float32Array(take(4 * weights).buffer),
    priors: new Float32Array(take(4 * families).buffer),
    keys: new Uint32Array(take(4 * places).buffer),
    firsts: new Int32Array(take(4 * places).buffer),
    formShares: new Float32Array(take(4 * places).buffer),
    cumulative: new Float32Array(take(4 * places * binCount).buffer),
  }
}
