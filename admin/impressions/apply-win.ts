/** What a recorded notice moves: counters, the engine's sums, the model. Nothing here waits or fails. */
import type { Integration } from '../../opd/config.ts'
import type { Engine } from '../../opd/engine/types.ts'
import type { LedgerEntry } from '../ports.ts'
import type { ImpressionCounters, Status } from './counters.ts'
import { type Attribution, eventsOf } from './ledger-entry.ts'
import type { Notice } from './notice.ts'

export interface EffectsDeps {
  engine: Engine
  counters: ImpressionCounters
  integration: (id: string) => Integration | null
}

export class Effects {
  private readonly deps: EffectsDeps

  constructor(deps: EffectsDeps) {
    this.deps = deps
  }

  /** A label: what callers may invent is not one. */
  known(ssp: string | undefined): string {
    return ssp !== undefined && this.deps.integration(ssp) !== null ? ssp : ''
  }

  count(ssp: string, mode: string, status: Status, by: string | null, notice: Notice): void {
    this.deps.counters.counted(ssp, mode, status, by ?? 'none', notice.event)
  }

  /** A win that the ledger has; `may`: it may teach. */
  attributed(notice: Notice, of: Attribution, entry: LedgerEntry, may: boolean): void {
    const { record, by } = of
    this.count(record.supplier, record.mode, 'attributed', by, notice)
    this.money(notice, of, entry)
    this.teach(notice, of, may)
  }

  /** The sums of metrics and dashboard: a decision is one impression, by the event that is money. */
  private money(notice: Notice, { record, integration }: Attribution, entry: LedgerEntry): void {
    const { engine, counters } = this.deps
    const { teaches, money } = eventsOf(integration)
    const margin = entry.margin === null ? null : Number(entry.margin)
    engine.recordWin(
      record,
      teaches === notice.event,
      margin === null ? null : { cleared: Number(entry.cleared), margin },
    )
    if (money === notice.event) counters.named(record)
    counters.attributed(record, entry, engine.rate(record.currency))
  }

  private teach(notice: Notice, of: Attribution, may: boolean): void {
    if (eventsOf(of.integration).teaches !== notice.event) return
    if (may) this.deps.engine.learnWin(of.record, Number(notice.price), of.late)
    else this.deps.engine.withdrawExposure(of.record)
  }
}
