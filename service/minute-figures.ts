/** Adds what this node has counted since the last time to the minutes of the store. */
import { outcomesOf } from '../admin/fleet/health.ts'
import { armPairOf } from '../admin/metrics/comparison.ts'
import { type MinuteSum, minuteSumAt, minuteSums, tookBounds } from '../admin/store/minute-sums.ts'
import type { Minutes } from '../admin/store/minutes.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import { createSlices } from '../opd/base/slices.ts'
import type { EngineStats } from '../opd/pricing/stats.ts'
import { modes } from '../opd/shared/arms.ts'
import { bounds, outcomes } from '../proxy/metrics.ts'
import type { BidProxy } from '../proxy/proxy.ts'

interface MinuteFiguresDeps {
  proxy: BidProxy
  stats: EngineStats
  minutes: Minutes
  now: () => number
  /** How many there were since the start of the node. */
  reloads: () => number
  refits: () => number
}

/** Milliseconds: figures are added when the clock shows a multiple of it, so they are those of one minute. */
const every = 30_000
/** Milliseconds between two additions on demand. */
const leastPause = 2000

const counted = ['sent', 'failed', 'refused'] as const
/** The outcomes of a request by the sum that they count in. */
const placesOf = Object.fromEntries(
  counted.map((name) => [name, outcomesOf[name].map((outcome) => outcomes.indexOf(outcome))]),
) as Record<(typeof counted)[number], number[]>

/** By bucket of a duration, the sum that it counts in. */
const tookAt = [...bounds, Number.POSITIVE_INFINITY].map((seconds) => {
  const bound = tookBounds.find((bound) => seconds * 1000 <= bound)
  return minuteSumAt[`took_${bound ?? 'more'}`]
})

export class MinuteFigures {
  private readonly deps: MinuteFiguresDeps
  private before = new Map<string, Float64Array>()
  private nodeBefore = { starts: 0, reloads: 0, refits: 0 }
  private last: number
  private timer: NodeJS.Timeout | undefined

  constructor(deps: MinuteFiguresDeps) {
    this.deps = deps
    this.last = deps.now()
    this.schedule()
  }

  private schedule(): void {
    const { now } = this.deps
    this.timer = setTimeout(
      () => {
        this.schedule()
        void this.addMinutes()
      },
      every - (now() % every),
    ).unref()
  }

  /** The sums of a supplier since the start of the node. */
  private totalsOf(id: string): Float64Array {
    const { proxy, stats } = this.deps
    const totals = new Float64Array(minuteSums.length)
    const add = (name: MinuteSum, value: number) => {
      totals[minuteSumAt[name]]! += value
    }
    const metrics = proxy.suppliers.get(id)?.metrics
    if (metrics !== undefined) {
      const { requests } = metrics
      for (const count of requests) add('requests', count)
      for (const name of counted) for (const place of placesOf[name]) add(name, requests[place]!)
      for (const [bucket, count] of metrics.upstream.classic.entries())
        totals[tookAt[bucket]!]! += count
    }
    const supplierStats = stats.suppliers.get(id)
    if (supplierStats === undefined) return totals
    for (const mode of modes) {
      const figures = supplierStats.modes[mode]
      add('in_sum', figures.inSum)
      add('out_sum', figures.outSum)
      for (const arm of figures.arms) {
        add('bids', arm.bids)
        add('wins', arm.wins)
        add('margin', arm.margin)
        add('revenue', arm.cleared + arm.margin)
      }
      const pair = armPairOf(figures)
      for (const name of ['optimised', 'holdout'] as const) {
        const { bids, wins, spend, spendSquares } = pair[name]
        add(`${name}_bids`, bids)
        add(`${name}_wins`, wins)
        add(`${name}_spend`, spend)
        add(`${name}_squares`, spendSquares)
      }
    }
    return totals
  }

  /** What a supplier has counted since the last call; null: nothing. */
  private increments(id: string): Float64Array | null {
    const totals = this.totalsOf(id)
    const before = this.before.get(id)
    this.before.set(id, totals)
    // counters begin again where a supplier was removed and added
    const began = before === undefined || totals[0]! < before[0]! ? null : before
    const since = began === null ? totals : totals.map((total, index) => total - began[index]!)
    return since.some((value) => value !== 0) ? since : null
  }

  private nodeCounts(): Float64Array {
    const { reloads, refits } = this.deps
    const now = { starts: 1, reloads: reloads(), refits: refits() }
    const sums = new Float64Array(minuteSums.length)
    for (const name of ['starts', 'reloads', 'refits'] as const)
      sums[minuteSumAt[name]] = now[name] - this.nodeBefore[name]
    this.nodeBefore = now
    return sums
  }

  /** In time slices. */
  readonly addMinutes = oneAtATime(async () => {
    const { proxy, stats, minutes, now } = this.deps
    const time = now()
    // of the minute that most of the time since the last call was in
    const middle = Math.floor((this.last + time) / 2)
    this.last = time
    const all = this.nodeCounts()
    const slices = createSlices()
    for (const id of new Set([...proxy.suppliers.keys(), ...stats.suppliers.keys()])) {
      const since = this.increments(id)
      if (since !== null) {
        minutes.addSums(id, middle, since)
        for (let index = 0; index < all.length; index++) all[index]! += since[index]!
      }
      await slices.next()
    }
    minutes.addSums('', middle, all)
    await minutes.flush()
  })

  /** Adds what is newer than two seconds, for someone who looks at the running minute. */
  async refresh(): Promise<void> {
    if (Math.abs(this.deps.now() - this.last) >= leastPause) await this.addMinutes()
  }

  async close(): Promise<void> {
    clearTimeout(this.timer)
    await this.addMinutes()
  }
}
