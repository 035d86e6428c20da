/** The outcomes of decisions: wins and losses are counted and logged, and train the model. */
import type { DecisionSink, Learners, PricingLearner } from '../ports.ts'
import type { EngineStats } from '../pricing/stats.ts'
import { armRules } from '../shared/arms.ts'
import type { FaultPlace, ReportFault } from '../shared/fault-log.ts'
import type { DecisionRecord, Engine, WinDetails, WinMoney } from '../types.ts'

interface OutcomeDeps {
  learners: Learners
  sink: DecisionSink | null
  /** Milliseconds since the epoch. */
  now: () => number
  stats: EngineStats
  /** Units of a currency per unit of the base currency; null: there is no rate. */
  rate: (currency: string) => number | null
  fault: ReportFault
}

type Outcomes = Pick<Engine, 'recordWin' | 'learnWin' | 'learnLoss' | 'withdrawExposure'>

export function createOutcomes(deps: OutcomeDeps): Outcomes {
  const { learners, now, stats, rate, fault } = deps

  function guarded(place: FaultPlace, { supplier }: DecisionRecord, work: () => void): void {
    try {
      work()
    } catch (error) {
      fault(place, error, supplier)
    }
  }

  function recordWin(record: DecisionRecord, won: boolean, money: WinMoney | null): void {
    const { arm, mode, supplier } = record
    const perBase = rate(record.currency)
    if (perBase === null || !armRules[arm].money) return
    const counters = stats.supplierStats(supplier).modes[mode]
    if (won) counters.countWin(arm)
    if (money !== null) counters.countMoney(arm, money.cleared / perBase, money.margin / perBase)
  }

  /** Trains only if the model was exposed to the bid: the record then has features. */
  function train(record: DecisionRecord, work: (learner: PricingLearner) => void): void {
    if (record.trains && record.features.length > 0)
      guarded('training', record, () => work(learners.of(record.mode)))
  }

  function learnWin(
    record: DecisionRecord,
    cleared: number,
    late: boolean,
    { minToWin, applied = true, past }: WinDetails = {},
  ): void {
    const { id, supplier: ssp, features } = record
    const perBase = rate(record.currency)
    if (!armRules[record.arm].money) return
    // Without a rate, the decision log has the amounts of this bid in the bid's currency.
    const win = { time: past ?? now(), id, ssp, cleared: cleared / (perBase ?? 1), late }
    guarded('decision_log', record, () => deps.sink?.won(applied ? win : { ...win, applied }))
    if (perBase === null) return
    const least = minToWin === undefined ? undefined : minToWin / perBase
    const paid = cleared / perBase
    // The learner handles a price above out_ba: it counts as a win without a saving.
    train(record, (learner) => {
      if (past !== undefined)
        learner.settlePast(features, { cleared: paid, minToWin: least, applied }, past)
      else if (applied) learner.win(features, paid, now(), least)
      else learner.winUnapplied(features, paid, now(), least)
    })
  }

  function learnLoss(record: DecisionRecord, minToWin: number | null, past?: number): void {
    const perBase = rate(record.currency)
    if (!armRules[record.arm].money || perBase === null) return
    const least = minToWin === null ? null : minToWin / perBase
    const { features } = record
    train(record, (learner) => {
      if (past !== undefined)
        learner.settlePast(
          features,
          { cleared: null, minToWin: least ?? undefined, applied: true },
          past,
        )
      else learner.lose(features, least, now())
    })
  }

  function withdrawExposure(record: DecisionRecord): void {
    const { id, supplier: ssp } = record
    if (armRules[record.arm].money)
      guarded('decision_log', record, () => deps.sink?.withdrawn({ time: now(), id, ssp }))
    train(record, (learner) => learner.withdraw(record.features, now()))
  }

  return { recordWin, learnWin, learnLoss, withdrawExposure }
}
