/** How the counts of a histogram are divided: into buckets with bounds, and into those of a native histogram of Prometheus. */

/** The positive buckets of a native histogram. */
export interface NativeHistogram {
  /** Buckets for each doubling, as a power of two: bucket `i` counts values above 2^((i-1)/2^schema), up to 2^(i/2^schema). */
  readonly schema: number
  /** Values up to this one are in `zeroCount`. */
  readonly zeroThreshold: number
  readonly zeroCount: number
  /** Index of the first entry of `counts`. */
  readonly first: number
  /** From the first bucket with a value to the last one. */
  readonly counts: readonly number[]
}

/** What the counts of a histogram mean. */
export interface Buckets {
  /** Upper bounds, ascending. */
  readonly bounds: readonly number[]
  /** Counts that a histogram keeps. */
  readonly cells: number
  /**
   * One count for each bound, not cumulative, and one for the values above the last.
   *
   * @param counts one for each cell
   */
  classic(counts: Float64Array): Float64Array
  /**
   * null: only classic buckets are kept.
   *
   * @param counts one for each cell
   */
  native(counts: Float64Array): NativeHistogram | null
}

/**
 * Buckets with these bounds alone.
 *
 * @param bounds upper bounds, ascending
 */
export const classicBuckets = (bounds: readonly number[]): Buckets => ({
  bounds,
  cells: bounds.length + 1,
  classic: (counts) => counts,
  native: () => null,
})

/** Eight buckets for each doubling: the width of each is 9 % of its value. */
const schema = 3
const perDoubling = 2 ** schema
/** The bounds of the native buckets: 2^-15 s is 31 us, 2^5 s is 32 s. Longer times are counted in the last one. */
const [lowest, highest] = [-15, 5]
const firstIndex = lowest * perDoubling + 1
const nativeBounds = Array.from(
  { length: (highest - lowest) * perDoubling + 1 },
  (_, index) => 2 ** (lowest + index / perDoubling),
)
const lastNative = nativeBounds.length - 1

/**
 * The exponent of a double and the first four bits of its mantissa, counted from those of the least bound: a logarithm takes
 * three times as long as these bits. Each doubling has 16 such keys, so the times of a key are in at most three cells.
 */
const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)
const highWord = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0
const keyBits = 16
const highOf = (value: number): number => {
  double[0] = value
  return words[highWord]! >>> keyBits
}
const leastKey = highOf(2 ** lowest)
const keyOf = (seconds: number): number => highOf(seconds) - leastKey
const leastOf = (key: number): number => {
  words[highWord] = (key + leastKey) << keyBits
  words[1 - highWord] = 0
  return double[0]!
}

/**
 * Buckets of times in seconds, classic and native. A time is counted once, in a cell: cells end at the bounds of both, so that
 * the counts of both are exact sums of cells.
 *
 *   classic   |-------------- 5 ms --------------|------------ 10 ms ----
 *   native    |----- 4.7 ms -----|----- 5.1 ms -----|----- 5.6 ms -----|
 *   cells     |        0         |       1       | 2|        3
 */
export class DurationBuckets implements Buckets {
  readonly bounds: readonly number[]
  readonly cells: number
  /** Upper bound of each cell. */
  private readonly ends: readonly number[]
  /** The bucket of each cell. Native buckets are counted from 0, which has the times up to the threshold of zero. */
  private readonly classicOf: readonly number[]
  private readonly nativeOf: readonly number[]
  /** The cell of the least time with each value of the high bits of a double. */
  private readonly firstCell: Uint16Array

  /** @param bounds upper bounds, seconds, ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    const ends = [...new Set([...bounds, ...nativeBounds])].sort((one, other) => one - other)
    this.ends = [...ends, Number.POSITIVE_INFINITY]
    this.cells = this.ends.length
    const bucketAt = (limits: readonly number[], end: number) =>
      limits.filter((limit) => limit < end).length
    this.classicOf = this.ends.map((end) => bucketAt(bounds, end))
    this.nativeOf = this.ends.map((end) => Math.min(bucketAt(nativeBounds, end), lastNative))
    this.firstCell = Uint16Array.from(
      { length: keyOf(nativeBounds[lastNative]!) + 1 },
      (_, key) => {
        const least = leastOf(key)
        return this.ends.findIndex((end) => least <= end)
      },
    )
  }

  /** @param seconds 0 or more */
  cellOf(seconds: number): number {
    const { firstCell, ends } = this
    const key = keyOf(seconds)
    let cell = key < 0 ? 0 : firstCell[key < firstCell.length ? key : firstCell.length - 1]!
    while (seconds > ends[cell]!) cell++
    return cell
  }

  classic(counts: Float64Array): Float64Array {
    const sums = new Float64Array(this.bounds.length + 1)
    for (let cell = 0; cell < counts.length; cell++) sums[this.classicOf[cell]!]! += counts[cell]!
    return sums
  }

  native(counts: Float64Array): NativeHistogram {
    const sums = new Array<number>(nativeBounds.length).fill(0)
    for (let cell = 0; cell < counts.length; cell++) sums[this.nativeOf[cell]!]! += counts[cell]!
    const zeroCount = sums[0]!
    sums[0] = 0
    const start = Math.max(
      1,
      sums.findIndex((count) => count > 0),
    )
    const end = sums.findLastIndex((count) => count > 0) + 1
    return {
      ...{ schema, zeroCount, zeroThreshold: nativeBounds[0]! },
      first: firstIndex + start - 1,
      counts: sums.slice(start, end),
    }
  }
}
