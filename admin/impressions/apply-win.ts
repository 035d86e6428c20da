/** The effects of an attributed win after it is in the ledger: counters, the sums of the engine, and the model. */
import type { Integration } from '../../opd/config.ts'
import type { Engine } from '../../opd/engine/types.ts'
import type { LedgerEntry } from '../ports.ts'
import type { ImpressionCounters } from './counters.ts'
import { type Attribution, eventsOf } from './ledger-entry.ts'
import type { Notice } from './notice.ts'

export interface ApplyWinDeps {
  engine: Engine
  counters: ImpressionCounters
  integration: (id: string) => Integration | null
}

/** Synchronous, and never throws. A decision counts one impression, by the event that is money. */
export function applyWin(
  { engine, counters }: ApplyWinDeps,
  notice: Notice,
  attribution: Attribution,
  entry: LedgerEntry,
  mayTrain: boolean,
): void {
  const { record, by, late, integration } = attribution
  const { supplier, mode, currency } = record
  const { teaches, money } = eventsOf(integration)
  const trains = teaches === notice.event
  counters.countNotice(supplier, mode, 'attributed', by, notice.event)
  const margin = entry.margin === null ? null : Number(entry.margin)
  engine.recordWin(
    record,
    trains,
    margin === null ? null : { cleared: Number(entry.cleared), margin },
  )
  if (money === notice.event) counters.countImpression(record)
  counters.countWin(record, entry, engine.rate(currency))
  if (!trains) return
  const minToWin = notice.minToWin === undefined ? undefined : Number(notice.minToWin)
  if (mayTrain) engine.learnWin(record, Number(notice.price), late, minToWin)
  else engine.withdrawExposure(record)
}
