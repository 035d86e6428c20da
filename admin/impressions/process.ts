/** One win notice: find ▸ record ▸ train. It resolves when the row is on disk. */

import { TokenBucket } from '../../opd/base/token-bucket.ts'
import { type ClearingConfig, clearingDefaults, type Integration } from '../../opd/config.ts'
import type { DecisionRecord, LookupResult } from '../../opd/types.ts'
import type { ProblemFault } from '../http/problem.ts'
import { type AccountOf, type Caller, seesSupplier } from '../http/roles.ts'
import { clockSlack, type SameWin } from '../store/ledger-input.ts'
import type { Outcome } from '../store/outcomes.ts'
import type { DuplicateNotice } from '../store/rollup.ts'
import type { LedgerRow } from '../store/tables.ts'
import type { UnattributedWin, UnattributedWins } from '../store/unattributed.ts'
import type { ImpressionCounters, Status } from './counters.ts'
import {
  attributedRow,
  eventsOf,
  isImplausible,
  ledgerBidId,
  provisional,
  rejectedRow,
  unattributedRow,
} from './ledger-row.ts'
import {
  findDecision,
  type ImpressionAuth,
  isCredential,
  isReported,
  type LedgerOfWins,
  type NoticeEngine,
  reasonOf,
  unreadableContexts,
  type VisibleLookup,
  visibleTo,
  wonBeforeExpiry,
} from './lookup.ts'
import { auditPrice, clearedPrice, type Notice, plainDecimal } from './notice.ts'
import { memoOf, noticeOf } from './notice-memo.ts'
import { decisionOf, featuresText, type NoticeOutcome, noticeOutcome } from './outcome.ts'

export interface NoticeDeps {
  engine: NoticeEngine
  counters: ImpressionCounters
  integration: (id: string) => Integration | null
  ledger: LedgerOfWins
  auth: ImpressionAuth
  /** Milliseconds; called for each notice, since a reload may change it. */
  contextTtl: () => number
  account: AccountOf
  now: () => number
  alert: (what: string, supplier: string) => void
  /** Called for each duplicate, which the ledger does not store. */
  onDuplicate: (notice: DuplicateNotice) => void
}

export type Rejection =
  | 'svc_opd_required'
  | 'context_required'
  | 'implausible_price'
  | 'invalid_parameters'

type NoticeResult =
  | {
      status: Exclude<Status, 'rejected'>
      by: 'context' | 'bid_log' | null
      late?: true
      reason?: string
    }
  | { status: 'rejected'; code: Rejection; faults?: ProblemFault[] }

/** Labels of the counters of a notice; '' and null: not known. */
interface NoticeLabels {
  supplier: string
  mode?: string
  by?: 'context' | 'bid_log' | null
}

/** Reasons of unattributed wins that the response names. */
const reportedReasons: ReadonlySet<string> = new Set(['ambiguous', provisional])

/** What became of a win that was looked up again. `waiting`: the shared bid log cannot be asked. */
export type SecondResult = 'attributed' | 'unknown' | 'refused' | 'waiting'

/** The clearing of a supplier, for a price that is decoded already. */
const plainPrices = (integration: Integration | null): ClearingConfig => ({
  ...(integration?.clearing ?? clearingDefaults),
  encoding: 'plain',
})

/** Whether a notice must have the context of the bid: in margin mode, unless the bid has none because an agent call priced it. */
const needsContext = ({ mode, via }: DecisionRecord) => mode === 'margin' && via !== 'agent'

/** The supplier, by which the price of a notice is decoded, is not known yet. */
export class UnknownEncodingError extends Error {
  override name = 'UnknownEncodingError'

  constructor() {
    super('the price cannot be read while the shared bid log cannot be asked')
  }
}

/** Limits on the ledger rows that unauthenticated notices may write. */
const anonymousRows = 1000
const anonymousRowsPerSecond = 10

/** Processes win notices: attribution, ledger, outcome. */
export class Notices {
  private readonly deps: NoticeDeps
  private readonly anonymousRefusals: TokenBucket

  constructor(deps: NoticeDeps) {
    this.deps = deps
    this.anonymousRefusals = new TokenBucket(anonymousRows, anonymousRowsPerSecond, deps.now())
  }

  /**
   * Resolves when what the notice says is on disk, or it is refused.
   *
   * @param sent the notice as its parameters say
   * @param caller whom its credential names; null: it has none
   * @param time milliseconds since the epoch at which the event happened; default: now
   * @throws StoreError if the store is lost or overloaded, UnknownEncodingError if the price cannot be read. Nothing has been
   *   counted then.
   */
  async process(sent: Notice, caller: Caller | null, time?: number): Promise<NoticeResult> {
    if (sent.price === auditPrice) {
      this.count(sent, 'ignored', { supplier: this.labelOf(sent.ssp) })
      return { status: 'ignored', by: null }
    }
    const { auth, counters, engine, account } = this.deps
    const mayUseLog = auth === 'context' && caller === null ? isCredential : undefined
    const { notice, found } = await findDecision(engine, sent, mayUseLog, time)
    counters.contexts[found.context]++
    if (mayUseLog?.(found.context) === false) {
      const price = plainDecimal(notice.price) ? notice.price : '0'
      return this.reject({ ...notice, price }, null, 'context_required')
    }
    const lookup = visibleTo(found, caller, account)
    const { record, by } = lookup
    const integration = this.deps.integration(record?.supplier ?? notice.ssp ?? '')
    const cleared = clearedPrice(notice, integration?.clearing, record?.currency ?? null, (cur) =>
      engine.rate(cur),
    )
    if ('detail' in cleared) {
      // the supplier, by which the price is decoded, is not known yet: the platform sends the notice again
      if (lookup.provisional && integration === null) throw new UnknownEncodingError()
      this.count(notice, 'rejected', { supplier: '', ...record, by: null })
      return { status: 'rejected', code: 'invalid_parameters', faults: [cleared] }
    }
    const priced = { ...notice, price: cleared.price }
    const timestamp = time ?? this.deps.now()
    if (record !== null && by !== null)
      return this.attribute(priced, lookup, record, by, caller, timestamp)
    return this.unattributed({ ...sent, ...priced }, lookup, caller, timestamp)
  }

  /** Looks up an unattributed win again, which was counted when its notice arrived. Rejects if the store is lost. */
  async lookUpAgain(win: UnattributedWin, wins: UnattributedWins): Promise<SecondResult> {
    const { engine, account } = this.deps
    const { notice: sent, caller, context } = noticeOf(win)
    const { notice, found } = await findDecision(engine, sent, undefined, win.at)
    if (found.provisional) return 'waiting'
    const lookup = visibleTo({ ...found, context }, caller, account)
    const { record } = lookup
    const refuse = async (reason: string, result: SecondResult = 'refused') => {
      if (reason !== win.reason) await wins.setReason(win, reason)
      return result
    }
    if (record === null) return refuse(reasonOf(lookup), 'unknown')
    const integration = this.deps.integration(record.supplier)
    const rate = (currency: string) => engine.rate(currency)
    const cleared = clearedPrice(notice, plainPrices(integration), record.currency, rate)
    if ('detail' in cleared) return refuse('no_rate')
    const priced = { ...notice, price: cleared.price }
    if (isImplausible(priced.price, record, integration)) return refuse('implausible_price')
    if (needsContext(record) && !unreadableContexts.has(context)) return refuse('svc_opd_required')
    // the row has the bid id of the row that it replaces, whichever reading of it has the decision
    const stored = { ...priced, bidId: win.bid_id }
    const isNew = await this.recordWin(stored, lookup, record, 'bid_log', caller, win.at, true)
    return isNew ? 'attributed' : refuse('repeated')
  }

  /** The supplier as a metric label; '' for a text that is not the id of an integration. */
  private labelOf(ssp: string | undefined): string {
    return ssp !== undefined && this.deps.integration(ssp) !== null ? ssp : ''
  }

  /**
   * The only supplier that bid with the id of the notice, as far as this node knows, so that the supplier whose notices are
   * refused is known. Only the memory of this node is asked: a caller without a credential must not cost more.
   */
  private bidderOf({ bidId }: Notice): string {
    const [supplier, ...others] = this.deps.engine.loggedSuppliers(bidId)
    return supplier === undefined || others.length > 0 ? '' : this.labelOf(supplier)
  }

  private count(notice: Notice, status: Status, { supplier, mode = '', by }: NoticeLabels): void {
    this.deps.counters.countNotice(supplier, mode, status, by ?? 'none', notice.event)
  }

  private async unattributed(
    notice: Notice,
    lookup: VisibleLookup,
    caller: Caller | null,
    time: number,
  ): Promise<NoticeResult> {
    const { engine, ledger, contextTtl, account } = this.deps
    const named = this.labelOf(notice.ssp)
    const supplier = seesSupplier(caller, named, account) ? named : ''
    if (isImplausible(notice.price, null, null))
      return this.reject(notice, null, 'implausible_price')
    if (lookup.context === 'expired' && (await wonBeforeExpiry(engine, ledger, notice)))
      return this.duplicate(notice, { supplier })
    const same = { since: time - contextTtl(), supplier: notice.ssp ?? null }
    const memo = memoOf(notice, ledgerBidId(notice.bidId), lookup.context, caller)
    const reason = reasonOf(lookup)
    const row = unattributedRow(notice, supplier === '' ? null : supplier, reason, time, memo)
    const outcome = JSON.stringify({
      status: 'unattributed',
      supplier,
      mode: '',
    } satisfies NoticeOutcome)
    let result = await ledger.record(row, same, outcome)
    // the existing row is older than `contextTtl`: this is another win with a reused bid id
    const only = { supplier: notice.ssp }
    if (result === 'duplicate' && !(await isReported(ledger, notice, same.since, only)))
      result = await ledger.record({ ...row, decision: `${row.decision}@${time}` }, same, outcome)
    if (result === 'duplicate') return this.duplicate(notice, { supplier })
    this.count(notice, 'unattributed', { supplier })
    return { status: 'unattributed', by: null, ...(reportedReasons.has(reason) ? { reason } : {}) }
  }

  private async attribute(
    notice: Notice,
    lookup: LookupResult,
    record: DecisionRecord,
    by: 'context' | 'bid_log',
    caller: Caller | null,
    time: number,
  ): Promise<NoticeResult> {
    const { ledger, contextTtl } = this.deps
    const { supplier } = record
    const { late, context } = lookup
    const earliest = time - contextTtl()
    const marginWithoutContext = needsContext(record) && by === 'bid_log'
    if (marginWithoutContext && !unreadableContexts.has(context)) {
      const only = { status: 'attributed' as const, supplier }
      return (await isReported(ledger, notice, earliest, only))
        ? this.duplicate(notice, { ...record, by })
        : this.reject(notice, record, 'svc_opd_required')
    }
    const integration = this.deps.integration(supplier)
    if (isImplausible(notice.price, record, integration))
      return this.reject(notice, record, 'implausible_price')
    if (!(await this.recordWin(notice, lookup, record, by, caller, time)))
      return this.duplicate(notice, { ...record, by })
    this.count(notice, 'attributed', { ...record, by })
    return { status: 'attributed', by, ...(late ? { late } : {}) }
  }

  /** Records an attributed win that arrived at `at`, and applies its effects. False: the ledger has the win. */
  private async recordWin(
    notice: Notice,
    { context, late }: LookupResult,
    record: DecisionRecord,
    by: 'context' | 'bid_log',
    caller: Caller | null,
    time: number,
    isSecond = false,
  ): Promise<boolean> {
    const { ledger, contextTtl, counters, alert } = this.deps
    const { supplier } = record
    const reason = unreadableContexts.has(context) ? `context_${context}` : null
    const integration = this.deps.integration(supplier)
    const attribution = { record, by, late, integration, reason }
    const row = attributedRow(notice, attribution, time)
    // an earlier notice may have been unattributed: its row is replaced by this one
    const since = Math.max(time - contextTtl(), Math.min(record.decidedAt, time) - clockSlack)
    const same: SameWin = { since, supplier }
    const marginWithoutContext = needsContext(record) && by === 'bid_log'
    const trains = by === 'context' || (caller !== null && !marginWithoutContext)
    const outcome: NoticeOutcome = {
      status: 'attributed',
      features: featuresText(record),
      trains,
      least: notice.minToWin,
      isSecond,
      past: notice.past,
    }
    if ((await ledger.record(row, same, JSON.stringify(outcome))) === 'duplicate') return false
    if (marginWithoutContext) {
      counters.unreadableMargin++
      alert('the context of a win in margin mode cannot be read', supplier)
    }
    this.applyWin(record, row, outcome)
    return true
  }

  /**
   * Applies the outcome of a notice whose row is in the ledger although its caller got an error.
   *
   * @param outcome of the kind `notice`, from the journal, once
   */
  applyOutcome({ row, event, body }: Outcome): void {
    const outcome = noticeOutcome(body)
    const count = (status: Status, labels: NoticeLabels) =>
      this.deps.counters.countNotice(
        labels.supplier,
        labels.mode ?? '',
        status,
        labels.by ?? 'none',
        event,
      )
    if (outcome.status !== 'attributed')
      // an unattributed row that is no longer there was replaced by another notice of the win
      return count(row === null ? 'duplicate' : outcome.status, outcome)
    const record = row === null ? null : decisionOf(row, outcome.features)
    if (row === null || record === null) return
    const by = row.by === 'context' ? 'context' : 'bid_log'
    if (!outcome.isSecond) count('attributed', { ...record, by })
    this.applyWin(record, row, outcome)
  }

  /** The effects of a win that is in the ledger. A decision counts one impression, by the event that is money. */
  private applyWin(
    record: DecisionRecord,
    row: LedgerRow,
    outcome: NoticeOutcome & { status: 'attributed' },
  ): void {
    const { engine, counters } = this.deps
    const { training, money } = eventsOf(this.deps.integration(record.supplier))
    const isTraining = training === row.event
    const { margin, cleared } = row
    const applied = row.applied === null || Number(row.applied) === 1
    const paid =
      margin === null ? null : { cleared: Number(cleared), margin: Number(margin), applied }
    engine.recordWin(record, isTraining, paid)
    if (money === row.event) counters.countImpression(record)
    counters.countWin(record, row, engine.rate(record.currency))
    if (!isTraining) return
    if (row.applied !== null) counters.countMutation(record.supplier, applied)
    const least = outcome.least === undefined ? undefined : Number(outcome.least)
    const isLate = Number(row.late) === 1
    if (outcome.trains)
      engine.learnWin(record, Number(cleared), isLate, {
        minToWin: least,
        applied,
        past: outcome.past === true ? Number(row.at) : undefined,
      })
    else engine.withdrawExposure(record)
  }

  private async reject(
    notice: Notice,
    record: DecisionRecord | null,
    code: Rejection,
  ): Promise<NoticeResult> {
    const { ledger, counters } = this.deps
    const time = this.deps.now()
    const labels = record ?? {
      supplier: this.labelOf(notice.ssp) || this.bidderOf(notice),
      mode: '',
    }
    const { supplier, mode } = labels
    const outcome = JSON.stringify({ status: 'rejected', supplier, mode } satisfies NoticeOutcome)
    // unauthenticated notices write rows at a limited rate; beyond it they are only counted
    if (code !== 'context_required' || this.anonymousRefusals.takeToken(time))
      await ledger.record(rejectedRow(notice, record, code, time), undefined, outcome)
    else counters.refusedUnkept++
    this.count(notice, 'rejected', labels)
    return { status: 'rejected', code }
  }

  private duplicate(notice: Notice, labels: NoticeLabels & Partial<DecisionRecord>): NoticeResult {
    this.count(notice, 'duplicate', labels)
    const { supplier, mode = '', via = '', by = null } = labels
    const { publisher = '', domain = '', seat = '', facets } = labels
    const time = this.deps.now()
    const { event } = notice
    this.deps.onDuplicate({ supplier, event, mode, via, publisher, domain, seat, facets, at: time })
    return { status: 'duplicate', by }
  }
}
