/**
 * Counters of bid requests. A request updates typed arrays only, and `exposition.ts` reads them at a scrape: an observe of
 * prom-client takes 0.25 us, an addition to a Float64Array almost nothing.
 */
import { DurationBuckets } from '../opd/base/buckets.ts'

export const outcomes = [
  'answer',
  'no_bid',
  'inactive',
  'qps',
  'unreadable',
  'overload',
  'timeout',
  'upstream_error',
  'client_abort',
  // The caller did not send the body of its request in time
  'slow_request',
  // 403, 405 and 413
  'refused',
] as const
export type RequestOutcome = (typeof outcomes)[number]

/** Why a request is refused: 405, 403 twice, 413 (problem.ts). */
export const refusals = ['method', 'caller', 'certificate', 'body'] as const
export type Refusal = (typeof refusals)[number]
const refusalAt = Object.fromEntries(refusals.map((name, index) => [name, index])) as Record<
  Refusal,
  number
>

const outcomeAt = Object.fromEntries(outcomes.map((name, index) => [name, index])) as Record<
  RequestOutcome,
  number
>

/** Seconds. */
export const bounds = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125,
  0.15, 0.175, 0.2, 0.225, 0.25, 0.5, 1, 2.5,
]

export const durationBuckets = new DurationBuckets(bounds)

export class DurationHistogram {
  readonly counts: Float64Array
  /** One number: seconds of all. */
  private readonly seconds: Float64Array

  /** By default an empty one. Both arrays may be parts of a larger one, which others count in. */
  constructor(counts = new Float64Array(durationBuckets.cells), seconds = new Float64Array(1)) {
    this.counts = counts
    this.seconds = seconds
  }

  get sum(): number {
    return this.seconds[0]!
  }

  observe(seconds: number): void {
    this.counts[durationBuckets.cellOf(seconds)]!++
    this.seconds[0]! += seconds
  }

  /** One count for each of `bounds`, and one for longer times. */
  get classic(): Float64Array {
    return durationBuckets.classic(this.counts)
  }
}

/** Of the requests to the endpoints of a supplier, or to those of its canary. */
export class VariantMetrics {
  readonly requests = new Float64Array(outcomes.length)
  readonly upstream = new DurationHistogram()
  /** Bids in responses that were read, and the sum of their prices as the supplier sent them. */
  bids = 0
  prices = 0

  /**
   * Counts a finished request of this variant.
   *
   * @param upstreamMs milliseconds of the last attempt; 0: the request was not sent
   */
  finished(outcome: RequestOutcome, upstreamMs: number): void {
    this.requests[outcomeAt[outcome]]!++
    if (upstreamMs > 0) this.upstream.observe(upstreamMs / 1000)
  }
}

export const mirrorOutcomes = ['answer', 'no_bid', 'timeout', 'error', 'skipped'] as const
export type MirrorOutcome = (typeof mirrorOutcomes)[number]
/** Of the comparison with the supplier's response: what differs first. */
export const mirrorResults = ['same', 'status', 'bids', 'prices', 'unknown'] as const
export type MirrorResult = (typeof mirrorResults)[number]
/** Of which bids and prices are counted. */
export const mirrorSides = ['supplier', 'mirror'] as const

export class MirrorMetrics {
  readonly requests = new Float64Array(mirrorOutcomes.length)
  readonly results = new Float64Array(mirrorResults.length)
  readonly bids = new Float64Array(mirrorSides.length)
  readonly prices = new Float64Array(mirrorSides.length)

  /** @param outcome at the mirror; `skipped`: too many requests are there, and this one was not copied */
  requested(outcome: MirrorOutcome): void {
    this.requests[mirrorOutcomes.indexOf(outcome)]!++
  }

  /** @param result `unknown`: one of the responses is not complete, or cannot be read */
  compared(result: MirrorResult): void {
    this.results[mirrorResults.indexOf(result)]!++
  }

  /**
   * Adds the bids of two responses that are compared.
   *
   * @param bids their number, of the supplier and of the mirror
   * @param prices sums of their prices, CPM in whatever currency each has
   */
  priced(bids: readonly [number, number], prices: readonly [number, number]): void {
    for (const side of mirrorSides.keys()) {
      this.bids[side]! += bids[side]!
      this.prices[side]! += prices[side]!
    }
  }
}

/** The numbers of a supplier: the sums of its three histograms, its requests by outcome, and the counts of each histogram. */
const nth = { duration: 0, upstream: 1, overhead: 2 } as const
const histograms = 3
const { cells } = durationBuckets
const outcomesAt = histograms
const cellsAt = (index: number) => outcomesAt + outcomes.length + index * cells
const numbersOfSupplier = cellsAt(histograms)

/**
 * The numbers of many suppliers, in one array: with thousands of suppliers nothing that belongs to one of them is in the caches of the
 * processor, and an array object for each would be more to read. They are in use for ever, as the counters of a supplier are. Memory that
 * no supplier has yet is not touched, and takes none of the machine's.
 */
const suppliersOfBlock = 1024
let block = new Float64Array(0)
let used = 0

/** The block of the next supplier, and where its numbers begin. */
function nextNumbers(): { numbers: Float64Array<ArrayBuffer>; start: number } {
  if (used === block.length) {
    block = new Float64Array(suppliersOfBlock * numbersOfSupplier)
    used = 0
  }
  const start = used
  used += numbersOfSupplier
  return { numbers: block, start }
}

/** The counters of one supplier, plain numbers. What is public is added up over processes, field by field. */
export class SupplierMetrics {
  // What each request reads comes first, and lies together in memory.
  /** Those of this supplier begin at `#start`. */
  readonly #numbers: Float64Array<ArrayBuffer>
  readonly #start: number
  /** All numbers of this supplier. */
  readonly finishedRequests: Float64Array<ArrayBuffer>
  readonly mirror = new MirrorMetrics()
  readonly refusals = new Float64Array(refusals.length)
  replays = 0
  /** Health checks of the endpoints, and those of them that failed. */
  checks = 0
  failedChecks = 0
  /** null: there was no canary. The last field: processes add their counters field by field. */
  variants: { main: VariantMetrics; canary: VariantMetrics } | null = null
  readonly #histograms: (DurationHistogram | undefined)[] = []

  constructor() {
    const { numbers, start } = nextNumbers()
    this.#numbers = numbers
    this.#start = start
    this.finishedRequests = numbers.subarray(start, start + numbersOfSupplier)
  }

  get requests(): Float64Array {
    return this.finishedRequests.subarray(outcomesAt, outcomesAt + outcomes.length)
  }

  get duration(): DurationHistogram {
    return this.histogram(nth.duration)
  }

  get upstream(): DurationHistogram {
    return this.histogram(nth.upstream)
  }

  get overhead(): DurationHistogram {
    return this.histogram(nth.overhead)
  }

  /** The same object each time: what was exported of a histogram is remembered by its identity. */
  private histogram(index: number): DurationHistogram {
    const part = (from: number, length: number) =>
      this.finishedRequests.subarray(from, from + length)
    this.#histograms[index] ??= new DurationHistogram(part(cellsAt(index), cells), part(index, 1))
    return this.#histograms[index]
  }

  private observe(index: number, seconds: number): void {
    const start = this.#start
    this.#numbers[start + cellsAt(index) + durationBuckets.cellOf(seconds)]!++
    this.#numbers[start + index]! += seconds
  }

  get total(): number {
    return this.requests.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Counts why a request is refused. `finished` is called as well, and counts the request.
   *
   * @param reason `body`: too large, or malformed
   */
  refused(reason: Refusal): void {
    this.refusals[refusalAt[reason]]!++
  }

  /**
   * Counts a finished request.
   *
   * @param totalMs milliseconds from the arrival of its head to the end of the response
   * @param upstreamMs milliseconds of the last attempt, part of `totalMs`; 0: the request was not sent
   */
  finished(outcome: RequestOutcome, totalMs: number, upstreamMs: number): void {
    this.#numbers[this.#start + outcomesAt + outcomeAt[outcome]]!++
    this.observe(nth.duration, totalMs / 1000)
    if (upstreamMs === 0) return
    this.observe(nth.upstream, upstreamMs / 1000)
    this.observe(nth.overhead, Math.max(0, totalMs - upstreamMs) / 1000)
  }
}
