/**
 * What the engine does with a notice: finds its decision, in its context, else in the bid logs of this node and of all nodes;
 * counts and logs the outcome, and trains the model with it.
 */
import type { BidLog, DecisionSink, Learners, PricingLearner, SharedBidLog } from '../ports.ts'
import type { ContextCodec } from '../pricing/context.ts'
import type { EngineStats } from '../pricing/stats.ts'
import { armRules } from '../shared/arms.ts'
import type { FaultPlace, ReportFault } from '../shared/fault-log.ts'
import type {
  DecisionRecord,
  Engine,
  EngineSettings,
  LookupResult,
  WinDetails,
  WinMoney,
} from '../types.ts'

/** Milliseconds that the clocks of two nodes may be apart: all have that of the database, to half a second. */
const maxClockSkew = 5000

interface AttributionDeps {
  bidLog: BidLog
  shared: SharedBidLog | null
  now: () => number
  fault: ReportFault
  /** They change with the configuration. */
  codec: () => ContextCodec
  settings: () => EngineSettings
}

/**
 * Finds the decisions of notices.
 *
 * @param deps `now`: milliseconds since the epoch; `codec` and `settings` are asked at each notice, because a reload replaces
 * them
 */
export function createAttribution(
  deps: AttributionDeps,
): Pick<Engine, 'findDecision' | 'loggedSuppliers' | 'explain'> {
  const { bidLog, shared, now } = deps

  /** null: the shared log cannot be asked. */
  async function fromShared(bidId: string): Promise<DecisionRecord[] | null> {
    if (shared === null) return []
    try {
      return await shared.find(bidId)
    } catch (error) {
      deps.fault('shared_bid_log', error)
      return null
    }
  }

  /** Adds features that did not fit in the context. If no log has them, the record no longer trains the model. */
  async function withFeatures(record: DecisionRecord): Promise<DecisionRecord> {
    if (!record.trains || record.features.length > 0) return record
    const same = ({ id }: DecisionRecord) => id === record.id
    const local = bidLog.find(record.bidId).find(same)
    const logged = local ?? (await fromShared(record.bidId))?.find(same)
    return logged ?? { ...record, trains: false }
  }

  /**
   * The latest decision of each supplier, or of `ssp` alone, with the bid id. Decisions before `earliest` are left out.
   * null: the shared log cannot be asked. Another node may then have decided it later, or for another supplier, so that
   * the log of this node alone would be a guess.
   */
  async function latest(bidId: string, ssp: string | undefined, earliest: number) {
    const matches = (record: DecisionRecord) =>
      record.decidedAt >= earliest && (ssp === undefined || record.supplier === ssp)
    const local = bidLog.find(bidId).filter(matches)
    if (shared === null) return local
    const elsewhere = await fromShared(bidId)
    if (elsewhere === null) return null
    const latest = new Map(local.map((record) => [record.supplier, record]))
    for (const record of elsewhere.filter(matches)) {
      const known = latest.get(record.supplier)
      if (known === undefined || known.decidedAt < record.decidedAt)
        latest.set(record.supplier, record)
    }
    return [...latest.values()]
  }

  const isLate = (record: DecisionRecord, time: number) =>
    record.decidedAt < time - deps.settings().attributionWindow

  return {
    async findDecision(notice, mayUseLog): Promise<LookupResult> {
      const { bidId, svcOpd, ssp, sees, receivedAt = now() } = notice
      // of a notice that arrived earlier: its bid was decided before it
      const last =
        notice.receivedAt === undefined ? Number.POSITIVE_INFINITY : receivedAt + maxClockSkew
      const { state, record } = deps.codec().decode(svcOpd, bidId, receivedAt)
      const result = { context: state, ambiguous: [], provisional: false }
      if (state === 'valid' && record !== null) {
        const complete = await withFeatures(record)
        return { ...result, by: 'context', record: complete, late: isLate(record, receivedAt) }
      }
      const earliest = receivedAt - deps.settings().contextTtl
      const mayLookUp = mayUseLog?.(state) !== false
      let logged = mayLookUp ? await latest(bidId, ssp, earliest) : []
      // A win may be reported to another node before the one that priced the bid has written it.
      if (mayLookUp && logged?.length === 0 && shared !== null && notice.receivedAt === undefined) {
        await shared.written()
        logged = await latest(bidId, ssp, earliest)
      }
      const nothing = { ...result, by: null, record: null, late: false }
      if (logged === null) return { ...nothing, provisional: true }
      const found = logged.filter(
        (record) => record.decidedAt <= last && (sees?.(record.supplier) ?? true),
      )
      const [only] = found
      if (only !== undefined && found.length === 1)
        return { ...result, by: 'bid_log', record: only, late: isLate(only, receivedAt) }
      const ambiguous = found.map(({ supplier }) => supplier)
      return { ...nothing, ambiguous }
    },

    loggedSuppliers: (bidId) => bidLog.find(bidId).map(({ supplier }) => supplier),

    explain(svcOpd, bidId) {
      const time = now()
      const { state, record } = deps.codec().decode(svcOpd, bidId, time)
      return { context: state, record, late: record !== null && isLate(record, time) }
    },
  }
}

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

/**
 * Counts, logs and trains with the outcomes of decisions. A fault of the learner or the log is counted and logged, not
 * thrown.
 */
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
      guarded('training', record, () => work(learners.learnerOf(record.mode)))
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
    guarded('decision_log', record, () => deps.sink?.writeWin(applied ? win : { ...win, applied }))
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
      guarded('decision_log', record, () => deps.sink?.writeWithdrawal({ time: now(), id, ssp }))
    train(record, (learner) => learner.withdraw(record.features, now()))
  }

  return { recordWin, learnWin, learnLoss, withdrawExposure }
}
