/** One notice on its way: trace ▸ record ▸ teach. Answers only what is on disk. */
import type { Integration } from '../../opd/config.ts'
import type { DecisionRecord, Engine, LookupResult } from '../../opd/engine/types.ts'
import { type Caller, clockSlack, type Ledger, type Repeat, type SameWin } from '../ports.ts'
import { Effects } from './apply-win.ts'
import { type ImpressionAuth, isCredential } from './authentication.ts'
import { Budget } from './budget.ts'
import type { ImpressionCounters, Status } from './counters.ts'
import {
  attributedEntry,
  isImplausible,
  ledgerBidId,
  rejectedEntry,
  unattributedEntry,
} from './ledger-entry.ts'
import { auditPrice, type Notice } from './notice.ts'
import { mayName, type Owned, owned, reasonOf, sentButUnread } from './visibility.ts'

export interface NoticeDeps {
  engine: Engine
  ledger: Ledger
  auth: ImpressionAuth
  /** Milliseconds; read at each notice, a reload may change it. */
  contextTtl: () => number
  integration: (id: string) => Integration | null
  /** Whose supplier it is; absent: every caller may report wins of every supplier. */
  account?: ((supplier: string) => string | undefined) | undefined
  now: () => number
  alert: (what: string, supplier: string) => void
  counters: ImpressionCounters
  /** Hears of each duplicate: the ledger keeps none of them. Absent: nobody does. */
  repeated?: (repeat: Repeat) => void
}

export type Rejection = 'svc_opd_required' | 'context_required' | 'implausible_price'

export type Outcome =
  | {
      status: Exclude<Status, 'rejected'>
      by: 'context' | 'bid_log' | null
      late?: true
      reason?: string
    }
  | { status: 'rejected'; code: Rejection }

/** Rows that notices without credentials may write. */
const keptRefusals = 1000
const keptRefusalsPerSecond = 10

export class Notices {
  private readonly deps: NoticeDeps
  private readonly strangers: Budget
  private readonly effects: Effects

  constructor(deps: NoticeDeps) {
    this.deps = deps
    this.effects = new Effects(deps)
    this.strangers = new Budget(keptRefusals, keptRefusalsPerSecond, deps.now)
  }

  /** Notices under way: the handler refuses beyond a bound. */
  pending = 0

  /** Rejects when the store is lost: nothing has been counted then. */
  async take(notice: Notice, caller: Caller | null): Promise<Outcome> {
    if (notice.price === auditPrice) return this.ignored(notice)
    this.pending++
    try {
      return await this.one(notice, caller)
    } finally {
      this.pending--
    }
  }

  /**
   * The notice under the reading of its bid id that finds something. A context is bound to its bid id, so that it says
   * without a look-up which reading is meant; each other reading is looked up once, and none where `opens` forbids it.
   */
  private async read(
    notice: Notice,
    opens: typeof isCredential | undefined,
  ): Promise<{ notice: Notice; found: LookupResult }> {
    const { engine } = this.deps
    const { otherBidIds, ...plain } = notice
    const trace = async (each: Notice) => ({
      notice: each,
      found: await engine.findDecision(each, opens),
    })
    if (otherBidIds === undefined) return trace(plain)
    const readings = [plain, ...otherBidIds.map((bidId) => ({ ...plain, bidId }))]
    for (const each of readings)
      if (isCredential(engine.explain(each.svcOpd ?? '', each.bidId).context)) return trace(each)
    const first = await trace(plain)
    if (first.found.record !== null) return first
    for (const each of readings.slice(1)) {
      const other = await trace(each)
      if (other.found.record !== null) return other
    }
    return first
  }

  private ignored(notice: Notice): Outcome {
    this.effects.count(this.effects.known(notice.ssp), '', 'ignored', null, notice)
    return { status: 'ignored', by: null }
  }

  private async one(sent: Notice, caller: Caller | null): Promise<Outcome> {
    const { auth, counters } = this.deps
    const wanted = auth === 'context' && caller === null
    const { notice, found } = await this.read(sent, wanted ? isCredential : undefined)
    counters.contexts[found.context]++
    if (wanted && !isCredential(found.context)) return this.reject(notice, null, 'context_required')
    const traced = owned(found, caller, this.deps.account)
    const { record, by } = traced
    return record === null || by === null
      ? this.unattributed(notice, traced, caller)
      : this.attribute(notice, traced, record, by, caller)
  }

  private async unattributed(
    notice: Notice,
    traced: Owned,
    caller: Caller | null,
  ): Promise<Outcome> {
    const { ledger, now, contextTtl } = this.deps
    const at = now()
    const named = this.effects.known(notice.ssp)
    const supplier = mayName(named, caller, this.deps.account) ? named : ''
    if (traced.context === 'expired' && (await this.wonLongAgo(notice)))
      return this.duplicate(notice, supplier, '', null)
    const same = { since: at - contextTtl(), supplier: notice.ssp ?? null }
    const owner = supplier === '' ? null : supplier
    const entry = unattributedEntry(notice, owner, reasonOf(traced), at)
    let result = await ledger.record(entry, same)
    // the row of this bid id is older than `contextTtl`: another win under a bid id that came again
    if (result === 'duplicate' && !(await this.reported(notice, same.since)))
      result = await ledger.record({ ...entry, decision: `${entry.decision}@${at}` }, same)
    if (result === 'duplicate') return this.duplicate(notice, supplier, '', null)
    this.effects.count(supplier, '', 'unattributed', null, notice)
    return {
      status: 'unattributed',
      by: null,
      ...(traced.ambiguous ? { reason: 'ambiguous' } : {}),
    }
  }

  /** Whether a win under the bid id, of the supplier that the notice names, has a row. */
  private reported({ bidId, event, ssp }: Notice, since: number): Promise<boolean> {
    return this.deps.ledger.seenBid(ledgerBidId(bidId), event, since, { supplier: ssp })
  }

  /** An expired context is no evidence of a win, but tells one that was counted when it was not. */
  private async wonLongAgo({ svcOpd, bidId, event }: Notice): Promise<boolean> {
    const { record } = this.deps.engine.explain(svcOpd ?? '', bidId)
    if (record === null) return false
    const only = { status: 'attributed' as const, supplier: record.supplier }
    return this.deps.ledger.seenBid(ledgerBidId(bidId), event, record.at - clockSlack, only)
  }

  private async attribute(
    notice: Notice,
    traced: LookupResult,
    record: DecisionRecord,
    by: 'context' | 'bid_log',
    caller: Caller | null,
  ): Promise<Outcome> {
    const { ledger, now, contextTtl, counters, alert } = this.deps
    const { supplier, mode } = record
    const at = now()
    const earliest = at - contextTtl()
    const balancing = mode === 'margin' && by === 'bid_log'
    const unread = sentButUnread.has(traced.context)
    if (balancing && !unread) {
      const only = { status: 'attributed' as const, supplier }
      if (await ledger.seenBid(ledgerBidId(notice.bidId), notice.event, earliest, only))
        return this.duplicate(notice, supplier, mode, by, record)
      return this.reject(notice, record, 'svc_opd_required')
    }
    const integration = this.deps.integration(supplier)
    if (isImplausible(notice.price, record.outBa, integration))
      return this.reject(notice, record, 'implausible_price')
    const reason = unread ? `context_${traced.context}` : null
    const of = { record, by, late: traced.late, integration, reason }
    const entry = attributedEntry(notice, of, at)
    // reported before, when no node could tell whose it was: that row becomes this one
    const same: SameWin = {
      since: Math.max(earliest, Math.min(record.at, at) - clockSlack),
      supplier,
    }
    if ((await ledger.record(entry, same)) === 'duplicate')
      return this.duplicate(notice, supplier, mode, by, record)
    if (balancing) {
      counters.unreadableMargin++
      alert('a margin-balancing win came with a context that cannot be read', supplier)
    }
    this.effects.attributed(notice, of, entry, by === 'context' || (caller !== null && !balancing))
    return { status: 'attributed', by, ...(traced.late ? { late: true as const } : {}) }
  }

  private async reject(
    notice: Notice,
    record: DecisionRecord | null,
    code: Rejection,
  ): Promise<Outcome> {
    const { ledger, now, counters } = this.deps
    // strangers may fill the log of refusals no faster than this; beyond it they are counted only
    if (code !== 'context_required' || this.strangers.take())
      await ledger.record(rejectedEntry(notice, record, code, now()))
    else counters.refusedUnkept++
    const supplier = record?.supplier ?? this.effects.known(notice.ssp)
    this.effects.count(supplier, record?.mode ?? '', 'rejected', null, notice)
    return { status: 'rejected', code }
  }

  private duplicate(
    notice: Notice,
    supplier: string,
    mode: string,
    by: 'context' | 'bid_log' | null,
    record: DecisionRecord | null = null,
  ): Outcome {
    this.effects.count(supplier, mode, 'duplicate', by, notice)
    const { publisher = '', domain = '' } = record ?? {}
    const { event } = notice
    this.deps.repeated?.({ supplier, event, mode, publisher, domain, at: this.deps.now() })
    return { status: 'duplicate', by }
  }
}
