/** The engine's counters by supplier and mode: numbers and typed arrays, read at each scrape. A reload keeps them. */

import { getOrAdd } from '../base/get-or-add.ts'
import { type Arm, armAt, arms, type Guard, guards, isAlarm, type Mode } from '../shared/arms.ts'
import { noFaults } from '../shared/fault-log.ts'
import {
  type BidReason,
  bidReasons,
  type ResponseReason,
  responseReasons,
} from '../shared/reasons.ts'

/** Upper bounds of the factor histogram. */
export const factorBounds = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 1] as const

/**
 * 0 for a price that no auction pays: 1e308 is valid JSON, and would make a sum useless for ever.
 *
 * @param price CPM in the base currency, any number
 */
export const summable = (price: number) => (Math.abs(price) < 1e9 ? price : 0)

/** Bids and wins of one arm. Sums of money are CPM in the base currency. */
export class ArmSums {
  // The first field: after a line without a semicolon, `in` would be an operator.
  in = 0
  bids = 0
  wins = 0
  cleared = 0
  margin = 0
  /** Sum of squared margins, for the confidence interval of the mean. */
  marginSquares = 0
  /** Sum of cleared + margin of wins: in_ba, or price_dsp if the integration prices on the demand side. */
  spend = 0
  /** Sum of squares of the same. */
  spendSquares = 0
}

/** Numbers of `ModeStats.priced`. */
const nth = { inSum: 0, outSum: 1, factorSum: 2, counts: 3 } as const

/** The histogram of factors. */
class Factors {
  readonly counts: Float64Array
  private readonly priced: Float64Array

  constructor(priced: Float64Array) {
    this.priced = priced
    this.counts = priced.subarray(nth.counts)
  }

  get sum(): number {
    return this.priced[nth.factorSum]!
  }
}

/** The counters of one supplier in one mode. */
export class ModeStats {
  /** An integration has used this mode since the start of the process. */
  configured = false
  readonly left = new Float64Array(bidReasons.length)
  readonly arms: readonly ArmSums[] = arms.map(() => new ArmSums())
  /** What each bid counts, side by side: with thousands of suppliers nothing of one is in the caches of the processor. */
  readonly priced = new Float64Array(nth.counts + factorBounds.length + 1)
  #factors: Factors | null = null
  learnerErrors = 0
  /** Contexts in which the features of the model did not fit. */
  contextsCut = 0
  /** Decisions that do not train the model because too many were made in the same second (`ExposureSampler`). */
  exposuresLeftOut = 0

  /** Guard and multipliers of the latest decision (lambda: CPM in the base currency). */
  guard: Guard | null = null
  theta = 1
  lambda = 0
  /** How often each guard became active. */
  readonly alarms = new Float64Array(guards.length)

  get inSum(): number {
    return this.priced[nth.inSum]!
  }

  get outSum(): number {
    return this.priced[nth.outSum]!
  }

  /** The same object each time: what was exported of a histogram is remembered by its identity. */
  get factors(): Factors {
    this.#factors ??= new Factors(this.priced)
    return this.#factors
  }

  /** Stores guard and multipliers of a decision. */
  setControl(guard: Guard | undefined, theta: number | undefined, lambda = 0): void {
    if (theta !== undefined) {
      this.theta = theta
      this.lambda = lambda
    }
    if (guard === undefined || guard === this.guard) return
    this.guard = guard
    if (isAlarm(guard)) this.alarms[guards.indexOf(guard)]!++
  }

  /** @param reason why one bid keeps its price */
  countUnmodified(reason: BidReason): void {
    this.left[bidReasons.indexOf(reason)]!++
  }

  /** One priced bid. Money is in the base currency, 0 without a rate. */
  countPriced(arm: Arm, inBase: number, outBase: number): void {
    const sums = this.arms[armAt[arm]]!
    sums.bids++
    sums.in += summable(inBase)
    const { priced } = this
    priced[nth.inSum]! += summable(inBase)
    priced[nth.outSum]! += summable(outBase)
    const factor = inBase > 0 ? outBase / inBase : 1
    let bucket = 0
    while (bucket < factorBounds.length && factor > factorBounds[bucket]!) bucket++
    priced[nth.counts + bucket]!++
    priced[nth.factorSum]! += factor
  }

  /** @param arm of the decision that won */
  countWin(arm: Arm): void {
    this.arms[armAt[arm]]!.wins++
  }

  /**
   * The money of one win. With `notices: both` it arrives with the billing event.
   *
   * @param arm of the decision
   * @param cleared CPM in the base currency
   * @param margin CPM in the base currency; may be negative
   */
  countMoney(arm: Arm, cleared: number, margin: number): void {
    const sums = this.arms[armAt[arm]]!
    sums.cleared += summable(cleared)
    sums.margin += summable(margin)
    sums.marginSquares += summable(margin) ** 2
    sums.spend += summable(cleared + margin)
    sums.spendSquares += summable(cleared + margin) ** 2
  }

  /**
   * The object that goes on counting, not a copy.
   *
   * @param arm whose bids and wins it counts
   */
  sums(arm: Arm): ArmSums {
    return this.arms[armAt[arm]]!
  }
}

/** The counters of one supplier. */
export class SupplierStats {
  readonly modes: Readonly<Record<Mode, ModeStats>> = {
    revenue: new ModeStats(),
    margin: new ModeStats(),
  }
  readonly responses = new Float64Array(responseReasons.length)
  /** Responses that were sent unmodified because of an internal error. */
  faults = 0
  /** Responses with bids of which none contains the macro; `responses` counts those without any bid as well. */
  bidsWithoutMacro = 0

  /** @param reason why a whole response is left alone */
  countUnmodified(reason: ResponseReason): void {
    this.responses[responseReasons.indexOf(reason)]!++
  }
}

/** The counters of all suppliers, and the internal errors by place. */
export class EngineStats {
  readonly suppliers = new Map<string, SupplierStats>()
  readonly faults = noFaults()

  /**
   * The counters of one supplier, new ones at its first call. They are kept when the configuration no longer has the supplier.
   *
   * @param supplier identifier of an integration, now or before: a caller never passes one that a request only claims
   */
  supplierStats(supplier: string): SupplierStats {
    return getOrAdd(this.suppliers, supplier, () => new SupplierStats())
  }
}
