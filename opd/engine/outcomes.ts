/** What becomes of a decision: its win and loss are counted, logged, and train the model. */
import type { DecisionSink, Learners } from '../ports.ts'
import { armRules } from '../pricing/arms.ts'
import type { DayReductions } from './day-reductions.ts'
import type { FaultPlace, ReportFault } from './fault-log.ts'
import type { EngineStats } from './stats.ts'
import type { DecisionRecord, Engine, WinMoney } from './types.ts'

interface OutcomeDeps {
  learners: Learners
  sink: DecisionSink | null
  /** Milliseconds since the epoch. */
  now: () => number
  stats: EngineStats
  reductions: DayReductions
  /** Units of a currency per unit of the base currency; null: there is no rate. */
  rate: (currency: string) => number | null
  fault: ReportFault
}

type Outcomes = Pick<Engine, 'recordWin' | 'learnWin' | 'learnLoss' | 'withdrawExposure'>

export function createOutcomes(deps: OutcomeDeps): Outcomes {
  const { learners, now, stats, reductions, rate, fault } = deps

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
    const counters = stats.of(supplier).modes[mode]
    if (won) counters.won(arm)
    if (money === null) return
    counters.paid(arm, money.cleared / perBase, money.margin / perBase)
    if (armRules[arm].priced)
      reductions.add(supplier, now(), (Number(record.inBa) - Number(record.outBa)) / perBase)
  }

  function learnWin(
    record: DecisionRecord,
    cleared: number,
    late: boolean,
    minToWin?: number,
  ): void {
    const perBase = rate(record.currency)
    if (!armRules[record.arm].money) return
    const win = {
      time: now(),
      id: record.id,
      ssp: record.supplier,
      // Without a rate, the decision log has the amounts of this bid in the bid's currency.
      cleared: cleared / (perBase ?? 1),
      late,
    }
    guarded('decision_log', record, () => deps.sink?.won(win))
    if (perBase === null) return
    if (!record.teaches || record.features.length === 0) return
    // The learner handles a price above out_ba: it counts as a win without a saving.
    guarded('training', record, () =>
      learners
        .of(record.mode)
        .win(
          record.features,
          cleared / perBase,
          now(),
          ...(minToWin === undefined ? [] : [minToWin / perBase]),
        ),
    )
  }

  function learnLoss(record: DecisionRecord, minToWin: number | null): void {
    const perBase = rate(record.currency)
    if (!armRules[record.arm].money || perBase === null) return
    if (!record.teaches || record.features.length === 0) return
    const least = minToWin === null ? null : minToWin / perBase
    guarded('training', record, () => learners.of(record.mode).lose(record.features, least, now()))
  }

  function withdrawExposure(record: DecisionRecord): void {
    const { id, supplier: ssp } = record
    if (armRules[record.arm].money)
      guarded('decision_log', record, () => deps.sink?.withdrawn({ time: now(), id, ssp }))
    if (!record.teaches || record.features.length === 0) return
    guarded('training', record, () => learners.of(record.mode).withdraw(record.features, now()))
  }

  return { recordWin, learnWin, learnLoss, withdrawExposure }
}
