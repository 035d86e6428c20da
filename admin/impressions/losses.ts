/** One loss notice: trace ▸ record ▸ train. It resolves when the loss is on disk. */

import type { Integration } from '../../opd/config.ts'
import type { Engine } from '../../opd/engine/types.ts'
import { type AccountOf, seesSupplier } from '../auth/roles.ts'
import { type Caller, clockSlack, type Ledger } from '../ports.ts'
import type { LossStore } from '../store/losses.ts'
import type { ImpressionCounters } from './counters.ts'
import { eventsOf, ledgerBidId } from './ledger-entry.ts'
import {
  type ImpressionAuth,
  isCredential,
  isReported,
  traceNotice,
  visibleTrace,
} from './lookup.ts'
import type { Notice } from './notice.ts'

type LossStatus = 'recorded' | 'unattributed' | 'duplicate' | 'rejected'

interface LossDeps {
  engine: Engine
  losses: LossStore
  ledger: Ledger
  auth: ImpressionAuth
  account?: AccountOf
  integration: (id: string) => Integration | null
  now: () => number
  counters: ImpressionCounters
  /** Called for each loss of a decision that was recorded. It must only buffer. */
  onLoss?: ((loss: RecordedLoss) => void) | undefined
}

export interface RecordedLoss {
  decision: string
  /** null: not known. */
  ssp: string | null
  at: number
  /** Loss reason, list 5.25 of OpenRTB 2.6. */
  reason?: string | undefined
  minToWin?: string | undefined
}

export class Losses {
  private readonly deps: LossDeps
  /** Notices in progress; the handler refuses more than its limit. */
  pending = 0

  constructor(deps: LossDeps) {
    this.deps = deps
  }

  /** Rejects if the store is lost. Nothing has been counted then. */
  async process(sent: Notice, caller: Caller | null): Promise<LossStatus> {
    this.pending++
    try {
      const { status, ssp } = await this.processOne(sent, caller)
      this.deps.counters.countLoss(ssp, status)
      return status
    } finally {
      this.pending--
    }
  }

  private async processOne(
    sent: Notice,
    caller: Caller | null,
  ): Promise<{ status: LossStatus; ssp: string }> {
    const { engine, auth, losses, ledger, now, account, integration } = this.deps
    const needsCredential = auth === 'context' && caller === null
    const { notice, found } = await traceNotice(
      engine,
      sent,
      needsCredential ? isCredential : undefined,
    )
    if (needsCredential && !isCredential(found.context)) return { status: 'rejected', ssp: '' }
    const { record, by } = visibleTrace(found, caller, account)
    const at = now()
    const bidId = ledgerBidId(notice.bidId)
    if (record === null) {
      const isNew = await losses.record(`bid:${notice.ssp ?? ''}:${bidId}`, at)
      const seen = notice.ssp !== undefined && seesSupplier(caller, notice.ssp, account)
      const known = seen && integration(notice.ssp!) !== null
      return { status: isNew ? 'unattributed' : 'duplicate', ssp: known ? notice.ssp! : '' }
    }
    const ssp = record.supplier
    const won = { status: 'attributed' as const, supplier: ssp }
    const { teaches, money } = eventsOf(integration(ssp))
    for (const event of new Set([teaches, money]))
      if (await isReported(ledger, { ...notice, event }, record.at - clockSlack, won))
        return { status: 'duplicate', ssp }
    if (!(await losses.record(record.id, at))) return { status: 'duplicate', ssp }
    const { reason, minToWin } = notice
    this.deps.onLoss?.({ decision: record.id, ssp, at, reason, minToWin })
    if (by === 'context' || caller !== null)
      engine.learnLoss(record, minToWin === undefined ? null : Number(minToWin))
    else engine.withdrawExposure(record)
    return { status: 'recorded', ssp }
  }
}
