/** Quantiles, medians, errors, and interleaved rounds. */

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

export function quantile(values: Iterable<number>, share: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** The median of the ratios of samples of the same round: what disturbs the machine for a while disturbs both. */
export const ratioOf = (ones: readonly number[], others: readonly number[]): number =>
  median(ones.map((one, round) => one / others[round]!))

/** Of the mean. */
export function standardError(values: readonly number[]): number {
  const average = mean(values)
  const squares = values.reduce((sum, value) => sum + (value - average) ** 2, 0)
  return Math.sqrt(squares / Math.max(1, values.length - 1) / values.length)
}

/** The difference between the largest and the smallest, as a share of the smallest. */
export const spread = (values: readonly number[]): number =>
  Math.max(...values) / Math.min(...values) - 1

/** Each figure's median over samples of the same shape. */
export function medians<T extends { [K in keyof T]: number }>(samples: readonly T[]): T {
  const keys = Object.keys(samples[0]!) as (keyof T)[]
  return Object.fromEntries(
    keys.map((key) => [key, median(samples.map((sample) => sample[key]))]),
  ) as T
}

/** Measures each subject once a round. Each round begins with another subject, so that the order favours none. */
export async function inTurns<S, R>(
  rounds: number,
  subjects: readonly S[],
  measure: (subject: S, round: number) => R | Promise<R>,
): Promise<Map<S, R[]>> {
  const results = new Map<S, R[]>(subjects.map((subject) => [subject, []]))
  for (let round = 0; round < rounds; round++)
    for (let index = 0; index < subjects.length; index++) {
      const subject = subjects[(index + round) % subjects.length]!
      results.get(subject)!.push(await measure(subject, round))
    }
  return results
}

/** Latencies in steps of 20 us up to 2 s: constant memory, and no work when one is added. */
export class Histogram {
  readonly #counts = new Uint32Array(100_000)
  #total = 0

  get count(): number {
    return this.#total
  }

  /** Milliseconds. */
  addTime(ms: number): void {
    const bucket = Math.min(this.#counts.length - 1, Math.max(0, Math.floor(ms * 50)))
    this.#counts[bucket]!++
    this.#total++
  }

  /** Milliseconds, the upper end of the step; 0 when nothing was added. */
  quantile(share: number): number {
    let left = Math.ceil(this.#total * share)
    if (left === 0) return 0
    for (let index = 0; index < this.#counts.length; index++) {
      left -= this.#counts[index]!
      if (left <= 0) return (index + 1) / 50
    }
    return this.#counts.length / 50
  }
}
