/** One win notice: trace ▸ record ▸ train. It resolves when the row is on disk. */
import type { DecisionRecord, LookupResult } from '../../opd/engine/types.ts'
import { TokenBucket } from '../../opd/shared/token-bucket.ts'
import { type AccountOf, seesSupplier } from '../auth/roles.ts'
import type { ProblemFault } from '../http/problem.ts'
import {
  type Caller,
  clockSlack,
  type DuplicateNotice,
  type Ledger,
  type LedgerEntry,
  type SameWin,
} from '../ports.ts'
import { type ApplyWinDeps, applyWin } from './apply-win.ts'
import { clearedPrice } from './clearing.ts'
import type { Status } from './counters.ts'
import { attributedEntry, isImplausible, rejectedEntry, unattributedEntry } from './ledger-entry.ts'
import {
  type ImpressionAuth,
  isCredential,
  isReported,
  reasonOf,
  traceNotice,
  unreadableContexts,
  type VisibleTrace,
  visibleTrace,
  wonLongAgo,
} from './lookup.ts'
import { auditPrice, type Notice, plainDecimal } from './notice.ts'

export interface NoticeDeps extends ApplyWinDeps {
  ledger: Ledger
  auth: ImpressionAuth
  /** Milliseconds; called for each notice, since a reload may change it. */
  contextTtl: () => number
  /** The account of a supplier. Absent: every caller may report wins of every supplier. */
  account?: AccountOf
  now: () => number
  alert: (what: string, supplier: string) => void
  /** Called for each duplicate, which the ledger does not store. */
  onDuplicate?: (notice: DuplicateNotice) => void
  /** Called for each attributed win that the ledger has recorded. It must only buffer. */
  onWin?: ((entry: LedgerEntry) => void) | undefined
}

export type Rejection =
  | 'svc_opd_required'
  | 'context_required'
  | 'implausible_price'
  | 'invalid_parameters'

export type NoticeResult =
  | {
      status: Exclude<Status, 'rejected'>
      by: 'context' | 'bid_log' | null
      late?: true
      reason?: string
    }
  | { status: 'rejected'; code: Rejection; faults?: ProblemFault[] }

/** Limits on the ledger rows that unauthenticated notices may write. */
const anonymousRows = 1000
const anonymousRowsPerSecond = 10

export class Notices {
  private readonly deps: NoticeDeps
  private readonly anonymousRefusals: TokenBucket

  constructor(deps: NoticeDeps) {
    this.deps = deps
    this.anonymousRefusals = new TokenBucket(anonymousRows, anonymousRowsPerSecond, deps.now())
  }

  /** Notices in progress; the handler refuses more than its limit. */
  pending = 0

  /** Rejects if the store is lost. Nothing has been counted then. */
  async process(notice: Notice, caller: Caller | null): Promise<NoticeResult> {
    if (notice.price === auditPrice) return this.ignored(notice)
    this.pending++
    try {
      return await this.processOne(notice, caller)
    } finally {
      this.pending--
    }
  }

  /** The supplier as a metric label; '' for a text that is not the id of an integration. */
  private labelOf(ssp: string | undefined): string {
    return ssp !== undefined && this.deps.integration(ssp) !== null ? ssp : ''
  }

  private count(
    ssp: string,
    mode: string,
    status: Status,
    by: string | null,
    notice: Notice,
  ): void {
    this.deps.counters.countNotice(ssp, mode, status, by ?? 'none', notice.event)
  }

  private ignored(notice: Notice): NoticeResult {
    this.count(this.labelOf(notice.ssp), '', 'ignored', null, notice)
    return { status: 'ignored', by: null }
  }

  private async processOne(sent: Notice, caller: Caller | null): Promise<NoticeResult> {
    const { auth, counters } = this.deps
    const needsCredential = auth === 'context' && caller === null
    const { notice, found } = await traceNotice(
      this.deps.engine,
      sent,
      needsCredential ? isCredential : undefined,
    )
    counters.contexts[found.context]++
    if (needsCredential && !isCredential(found.context))
      return this.reject(
        { ...notice, price: plainDecimal(notice.price) ? notice.price : '0' },
        null,
        'context_required',
      )
    const traced = visibleTrace(found, caller, this.deps.account)
    const { record, by } = traced
    const integration = this.deps.integration(record?.supplier ?? notice.ssp ?? '')
    const cleared = clearedPrice(notice, integration?.clearing, record?.currency ?? null, (cur) =>
      this.deps.engine.rate(cur),
    )
    if ('detail' in cleared) {
      this.count(record?.supplier ?? '', record?.mode ?? '', 'rejected', null, notice)
      return { status: 'rejected', code: 'invalid_parameters', faults: [cleared] }
    }
    const readable = { ...notice, price: cleared.price }
    return record === null || by === null
      ? this.unattributed(readable, traced, caller)
      : this.attribute(readable, traced, record, by, caller)
  }

  private async unattributed(
    notice: Notice,
    traced: VisibleTrace,
    caller: Caller | null,
  ): Promise<NoticeResult> {
    const { engine, ledger, now, contextTtl } = this.deps
    const at = now()
    const named = this.labelOf(notice.ssp)
    const supplier = seesSupplier(caller, named, this.deps.account) ? named : ''
    if (traced.context === 'expired' && (await wonLongAgo(engine, ledger, notice)))
      return this.duplicate(notice, supplier, '', null)
    const same = { since: at - contextTtl(), supplier: notice.ssp ?? null }
    const owner = supplier === '' ? null : supplier
    const entry = unattributedEntry(notice, owner, reasonOf(traced), at)
    let result = await ledger.record(entry, same)
    // the existing row is older than `contextTtl`: this is another win with a reused bid id
    const only = { supplier: notice.ssp }
    if (result === 'duplicate' && !(await isReported(ledger, notice, same.since, only)))
      result = await ledger.record({ ...entry, decision: `${entry.decision}@${at}` }, same)
    if (result === 'duplicate') return this.duplicate(notice, supplier, '', null)
    this.count(supplier, '', 'unattributed', null, notice)
    return {
      status: 'unattributed',
      by: null,
      ...(traced.ambiguous.length > 0 ? { reason: 'ambiguous' } : {}),
    }
  }

  private async attribute(
    notice: Notice,
    traced: LookupResult,
    record: DecisionRecord,
    by: 'context' | 'bid_log',
    caller: Caller | null,
  ): Promise<NoticeResult> {
    const { ledger, now, contextTtl, counters, alert } = this.deps
    const { supplier, mode } = record
    const at = now()
    const earliest = at - contextTtl()
    const marginWithoutContext = mode === 'margin' && by === 'bid_log'
    const unread = unreadableContexts.has(traced.context)
    if (marginWithoutContext && !unread) {
      const only = { status: 'attributed' as const, supplier }
      if (await isReported(ledger, notice, earliest, only))
        return this.duplicate(notice, supplier, mode, by, record)
      return this.reject(notice, record, 'svc_opd_required')
    }
    const integration = this.deps.integration(supplier)
    if (isImplausible(notice.price, record.outBa, integration))
      return this.reject(notice, record, 'implausible_price')
    const reason = unread ? `context_${traced.context}` : null
    const attribution = { record, by, late: traced.late, integration, reason }
    const entry = attributedEntry(notice, attribution, at)
    // an earlier notice may have been unattributed: its row is replaced by this one
    const same: SameWin = {
      since: Math.max(earliest, Math.min(record.at, at) - clockSlack),
      supplier,
    }
    if ((await ledger.record(entry, same)) === 'duplicate')
      return this.duplicate(notice, supplier, mode, by, record)
    this.deps.onWin?.(entry)
    if (marginWithoutContext) {
      counters.unreadableMargin++
      alert('the context of a win in margin mode cannot be read', supplier)
    }
    applyWin(
      this.deps,
      notice,
      attribution,
      entry,
      by === 'context' || (caller !== null && !marginWithoutContext),
    )
    return { status: 'attributed', by, ...(traced.late ? { late: true as const } : {}) }
  }

  private async reject(
    notice: Notice,
    record: DecisionRecord | null,
    code: Rejection,
  ): Promise<NoticeResult> {
    const { ledger, counters } = this.deps
    const at = this.deps.now()
    // unauthenticated notices write rows at a limited rate; beyond it they are only counted
    if (code !== 'context_required' || this.anonymousRefusals.take(at))
      await ledger.record(rejectedEntry(notice, record, code, at))
    else counters.refusedUnkept++
    const supplier = record?.supplier ?? this.labelOf(notice.ssp)
    this.count(supplier, record?.mode ?? '', 'rejected', null, notice)
    return { status: 'rejected', code }
  }

  private duplicate(
    notice: Notice,
    supplier: string,
    mode: string,
    by: 'context' | 'bid_log' | null,
    record: DecisionRecord | null = null,
  ): NoticeResult {
    this.count(supplier, mode, 'duplicate', by, notice)
    const { publisher = '', domain = '', seat = '' } = record ?? {}
    const { event } = notice
    const at = this.deps.now()
    this.deps.onDuplicate?.({ supplier, event, mode, publisher, domain, seat, at })
    return { status: 'duplicate', by }
  }
}
