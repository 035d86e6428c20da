/** One loss notice: find ▸ record ▸ train. It resolves when the loss is on disk. */
import type { DecisionRecord } from '../../opd/types.ts'
import { type Caller, seesSupplier } from '../http/roles.ts'
import { clockSlack } from '../store/ledger-input.ts'
import type { LossStore } from '../store/losses.ts'
import type { Outcome } from '../store/outcomes.ts'
import { eventsOf, ledgerBidId } from './ledger-row.ts'
import { findDecision, isCredential, isReported, visibleTo } from './lookup.ts'
import type { Notice } from './notice.ts'
import { decisionOfLoss, featuresText, type LossOutcome, lossOutcome } from './outcome.ts'
import type { NoticeDeps } from './process.ts'

type LossStatus = 'recorded' | 'unattributed' | 'duplicate' | 'rejected'

export interface LossDeps
  extends Pick<
    NoticeDeps,
    'engine' | 'ledger' | 'auth' | 'account' | 'integration' | 'now' | 'counters'
  > {
  losses: LossStore
}

/**
 * Applies the outcome of a loss that is on disk although its caller got an error.
 *
 * @param deps engine and counters of this process
 * @param outcome of kind `loss`
 * @throws if the entry cannot be read
 */
export function applyLossOutcome(
  { engine, counters }: Pick<LossDeps, 'engine' | 'counters'>,
  { decision, body, at: time }: Outcome,
): void {
  const loss = lossOutcome(body)
  counters.countLoss(loss.supplier, 'recorded')
  applyLoss(engine, decisionOfLoss(decision, loss), loss, time)
}

function applyLoss(
  engine: LossDeps['engine'],
  record: DecisionRecord,
  { trains, least, past }: LossOutcome,
  time: number,
): void {
  if (trains)
    engine.learnLoss(
      record,
      least === undefined ? null : Number(least),
      past === true ? time : undefined,
    )
  else engine.withdrawExposure(record)
}

/**
 * Rejects if the store is lost. Nothing has been counted then. `time`: when the event happened; default: now.
 *
 * @param time milliseconds since 1970
 */
export async function processLoss(
  deps: LossDeps,
  sent: Notice,
  caller: Caller | null,
  time?: number,
): Promise<LossStatus> {
  const { status, ssp } = await record(deps, sent, caller, time)
  deps.counters.countLoss(ssp, status)
  return status
}

async function record(
  { engine, auth, losses, ledger, now, account, integration }: LossDeps,
  sent: Notice,
  caller: Caller | null,
  time?: number,
): Promise<{ status: LossStatus; ssp: string }> {
  const mayUseLog = auth === 'context' && caller === null ? isCredential : undefined
  const { notice, found } = await findDecision(engine, sent, mayUseLog, time)
  if (mayUseLog?.(found.context) === false) return { status: 'rejected', ssp: '' }
  const { record, by } = visibleTo(found, caller, account)
  const timestamp = time ?? now()
  if (record === null) {
    const { ssp = '', bidId } = notice
    const isNew = await losses.record(`bid:${ssp}:${ledgerBidId(bidId)}`, timestamp)
    const known = seesSupplier(caller, ssp, account) && integration(ssp) !== null
    return { status: isNew ? 'unattributed' : 'duplicate', ssp: known ? ssp : '' }
  }
  const ssp = record.supplier
  const won = { status: 'attributed' as const, supplier: ssp }
  const { training, money } = eventsOf(integration(ssp))
  for (const event of new Set([training, money]))
    if (await isReported(ledger, { ...notice, event }, record.decidedAt - clockSlack, won))
      return { status: 'duplicate', ssp }
  const outcome: LossOutcome = {
    supplier: ssp,
    mode: record.mode,
    arm: record.arm,
    currency: record.currency,
    features: featuresText(record),
    trains: by === 'context' || caller !== null,
    least: notice.minToWin,
    past: notice.past,
    reason: notice.reason,
  }
  if (!(await losses.record(record.id, timestamp, JSON.stringify(outcome))))
    return { status: 'duplicate', ssp }
  applyLoss(engine, record, outcome, timestamp)
  return { status: 'recorded', ssp }
}
