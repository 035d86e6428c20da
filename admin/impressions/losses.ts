/** One loss notice: find ▸ record ▸ train. It resolves when the loss is on disk. */
import { type Caller, seesSupplier } from '../http/roles.ts'
import { clockSlack } from '../store/ledger-input.ts'
import type { LossStore } from '../store/losses.ts'
import { eventsOf, ledgerBidId } from './ledger-row.ts'
import { findDecision, isCredential, isReported, visibleTo } from './lookup.ts'
import type { Notice } from './notice.ts'
import type { NoticeDeps } from './process.ts'

type LossStatus = 'recorded' | 'unattributed' | 'duplicate' | 'rejected'

export interface LossDeps
  extends Pick<
    NoticeDeps,
    'engine' | 'ledger' | 'auth' | 'account' | 'integration' | 'now' | 'counters'
  > {
  losses: LossStore
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

/** Rejects if the store is lost. Nothing has been counted then. */
export async function processLoss(
  deps: LossDeps,
  sent: Notice,
  caller: Caller | null,
): Promise<LossStatus> {
  const { status, ssp } = await record(deps, sent, caller)
  deps.counters.countLoss(ssp, status)
  return status
}

async function record(
  { engine, auth, losses, ledger, now, account, integration, onLoss }: LossDeps,
  sent: Notice,
  caller: Caller | null,
): Promise<{ status: LossStatus; ssp: string }> {
  const mayUseLog = auth === 'context' && caller === null ? isCredential : undefined
  const { notice, found } = await findDecision(engine, sent, mayUseLog)
  if (mayUseLog?.(found.context) === false) return { status: 'rejected', ssp: '' }
  const { record, by } = visibleTo(found, caller, account)
  const at = now()
  if (record === null) {
    const { ssp = '', bidId } = notice
    const isNew = await losses.record(`bid:${ssp}:${ledgerBidId(bidId)}`, at)
    const known = seesSupplier(caller, ssp, account) && integration(ssp) !== null
    return { status: isNew ? 'unattributed' : 'duplicate', ssp: known ? ssp : '' }
  }
  const ssp = record.supplier
  const won = { status: 'attributed' as const, supplier: ssp }
  const { training, money } = eventsOf(integration(ssp))
  for (const event of new Set([training, money]))
    if (await isReported(ledger, { ...notice, event }, record.at - clockSlack, won))
      return { status: 'duplicate', ssp }
  if (!(await losses.record(record.id, at))) return { status: 'duplicate', ssp }
  const { reason, minToWin } = notice
  onLoss?.({ decision: record.id, ssp, at, reason, minToWin })
  if (by === 'context' || caller !== null)
    engine.learnLoss(record, minToWin === undefined ? null : Number(minToWin))
  else engine.withdrawExposure(record)
  return { status: 'recorded', ssp }
}
