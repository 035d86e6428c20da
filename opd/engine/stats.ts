/**
 * What the engine counts, by supplier and mode: plain numbers and typed arrays, read at a scrape. A
 * reload keeps them.
 */
import { type Arm, armAt, arms, type Guard, guards, isAlarm, type Mode } from '../pricing/arms.ts'
import type { AnswerReason, BidReason } from '../pricing/types.ts'
import { noFaults } from './fault-log.ts'

export const bidReasons = [
  'no_macro',
  'fixed_price',
  'unknown_deal',
  'audio',
  'currency',
  'no_price',
  'unknown_imp',
  'excluded',
  'ambiguous',
  'request',
] as const satisfies readonly BidReason[]
const bidReasonAt = Object.fromEntries(bidReasons.map((name, at) => [name, at])) as Record<
  BidReason,
  number
>

export const answerReasons = [
  'no_macro',
  'disabled',
  'invalid_config',
  'malformed',
  'too_large',
  'encoding',
  'content_type',
  'charset',
  'no_transform',
  'no_seatbid',
] as const satisfies readonly AnswerReason[]
const answerReasonAt = Object.fromEntries(answerReasons.map((name, at) => [name, at])) as Record<
  AnswerReason,
  number
>

/** Upper bounds of the factor histogram. */
export const factorBounds = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 1] as const

/** A price of 1e308 is JSON too: what no auction pays stays out of sums, which it would spoil for ever. */
export const summable = (price: number) => (Math.abs(price) < 1e9 ? price : 0)

/** Bids and wins of one arm; sums are CPM in the base currency. */
export interface ArmSums {
  bids: number
  wins: number
  in: number
  cleared: number
  margin: number
  /** Of the margin squared: for the interval of the mean. */
  marginSquares: number
  /** cleared + margin of wins, which is in_ba unless the demand side says otherwise; and squared. */
  spend: number
  spendSquares: number
}

const noSums = (): ArmSums => ({
  bids: 0,
  wins: 0,
  in: 0,
  cleared: 0,
  margin: 0,
  marginSquares: 0,
  spend: 0,
  spendSquares: 0,
})

export class ModeStats {
  /** An integration has been in this mode since the start. */
  configured = false
  readonly left = new Float64Array(bidReasons.length)
  readonly arms: readonly ArmSums[] = arms.map(noSums)
  /** Bids by factor, and the sum of their factors. */
  readonly factors = { counts: new Float64Array(factorBounds.length + 1), sum: 0 }
  inSum = 0
  outSum = 0
  learnerErrors = 0
  /** Contexts that had no room for the features of the model. */
  contextsCut = 0

  /** Of the latest decision: the guard that held it up, and its multipliers (lambda: CPM in the base currency). */
  guard: string | null = null
  theta = 1
  lambda = 0
  /** How often each guard began to act. */
  readonly alarms = new Float64Array(guards.length)

  /** What a decision was made by. */
  controlled(guard: string | undefined, theta: number | undefined, lambda = 0): void {
    if (theta !== undefined) {
      this.theta = theta
      this.lambda = lambda
    }
    if (guard === undefined || guard === this.guard) return
    this.guard = guard
    const at = guards.indexOf(guard as Guard)
    if (at >= 0 && isAlarm(guards[at]!)) this.alarms[at]!++
  }

  leftAlone(reason: BidReason): void {
    this.left[bidReasonAt[reason]]!++
  }

  /** One priced bid; money in the base currency, 0 where it has no rate. */
  priced(arm: Arm, inBase: number, outBase: number): void {
    const sums = this.arms[armAt[arm]]!
    sums.bids++
    sums.in += summable(inBase)
    this.inSum += summable(inBase)
    this.outSum += summable(outBase)
    const factor = inBase > 0 ? outBase / inBase : 1
    let at = 0
    while (at < factorBounds.length && factor > factorBounds[at]!) at++
    this.factors.counts[at]!++
    this.factors.sum += factor
  }

  won(arm: Arm): void {
    this.arms[armAt[arm]]!.wins++
  }

  /** The money of one win; it may come with another event than the win (`notices: both`). */
  paid(arm: Arm, cleared: number, margin: number): void {
    const sums = this.arms[armAt[arm]]!
    sums.cleared += summable(cleared)
    sums.margin += summable(margin)
    sums.marginSquares += summable(margin) ** 2
    sums.spend += summable(cleared + margin)
    sums.spendSquares += summable(cleared + margin) ** 2
  }

  sums(arm: Arm): ArmSums {
    return this.arms[armAt[arm]]!
  }
}

export class SupplierStats {
  readonly modes: Readonly<Record<Mode, ModeStats>> = {
    revenue: new ModeStats(),
    margin: new ModeStats(),
  }
  readonly answers = new Float64Array(answerReasons.length)
  /** Answers that a fault of ours left as they came. */
  faults = 0

  untouched(reason: AnswerReason): void {
    this.answers[answerReasonAt[reason]]!++
  }
}

export class EngineStats {
  readonly suppliers = new Map<string, SupplierStats>()
  readonly faults = noFaults()

  /** Counters of one supplier; kept when the file no longer names it. */
  of(supplier: string): SupplierStats {
    let stats = this.suppliers.get(supplier)
    if (stats === undefined) {
      stats = new SupplierStats()
      this.suppliers.set(supplier, stats)
    }
    return stats
  }
}
