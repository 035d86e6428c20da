/** One notice on its way: trace ▸ seen before? ▸ record ▸ teach. Answers only what is on disk. */
import type { Integration } from '../../opd/config.ts'
import type { DecisionRecord, Engine, Traced } from '../../opd/engine.ts'
import type { SeenDecisions } from '../../opd/ports.ts'
import { type Caller, foreignBid, type Ledger, type Repeat } from '../ports.ts'
import { Budget } from './budget.ts'
import type { ImpressionCounters, Status } from './counters.ts'
import { type ImpressionAuth, isCredential } from './door.ts'
import { Effects } from './effects.ts'
import {
  attributedEntry,
  bidIdentity,
  ledgerBidId,
  rejectedEntry,
  unattributedEntry,
} from './entry.ts'
import { auditPrice, type Notice } from './notice.ts'
import { mayName, type Owned, owned, reasonOf, sentButUnread } from './owned.ts'
import { Recorder } from './recorder.ts'
import { Turns } from './turns.ts'

export interface NoticeDeps {
  engine: Engine
  ledger: Ledger
  /** Shared with the other nodes; null where there is no Redis. */
  seen: SeenDecisions | null
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

export type Outcome =
  | {
      status: Exclude<Status, 'rejected'>
      by: 'context' | 'bid_log' | null
      late?: true
      reason?: string
    }
  | { status: 'rejected'; code: 'svc_opd_required' | 'context_required' }

/** Rows that notices without credentials may write. */
const keptRefusals = 1000
const keptRefusalsPerSecond = 10

/** Clocks of nodes differ: a bare notice this much older than a decision cannot be its win. */
const clockSlack = 5000

export class Notices {
  private readonly deps: NoticeDeps
  private readonly turns = new Turns()
  private readonly strangers: Budget
  private readonly effects: Effects
  private readonly recorder: Recorder

  constructor(deps: NoticeDeps) {
    this.deps = deps
    this.effects = new Effects(deps)
    this.recorder = new Recorder(deps)
    this.strangers = new Budget(keptRefusals, keptRefusalsPerSecond, deps.now)
  }

  /** Notices under way: the handler refuses beyond a bound. */
  pending = 0

  /** Rejects when the store is lost: nothing has been counted then. */
  async take(notice: Notice, caller: Caller | null): Promise<Outcome> {
    if (notice.price === auditPrice) return this.ignored(notice)
    this.pending++
    try {
      return await this.one(await this.spelled(notice), caller)
    } finally {
      this.pending--
    }
  }

  /** The notice under the reading of its bid id that finds something. */
  private async spelled(notice: Notice): Promise<Notice> {
    const { otherBidIds, ...plain } = notice
    if (otherBidIds === undefined) return plain
    const { engine } = this.deps
    const readings = [plain, ...otherBidIds.map((bidId) => ({ ...plain, bidId }))]
    for (const each of readings)
      if (isCredential(engine.explain(each.svcOpd ?? '', each.bidId).context)) return each
    for (const each of readings) if ((await engine.trace(each)).record !== null) return each
    return plain
  }

  private ignored(notice: Notice): Outcome {
    this.effects.count(this.effects.known(notice.ssp), '', 'ignored', null, notice)
    return { status: 'ignored', by: null }
  }

  private async one(notice: Notice, caller: Caller | null): Promise<Outcome> {
    const { engine, auth, counters } = this.deps
    const wanted = auth === 'context' && caller === null
    const found = await engine.trace(notice, wanted ? isCredential : undefined)
    counters.contexts[found.context]++
    if (wanted && !isCredential(found.context)) return this.reject(notice, null, 'context_required')
    const traced = owned(found, caller, this.deps.account)
    const { record, by } = traced
    // Two reports of one decision meet at its row; one that nobody can place meets none, so it looks and writes alone.
    if (record === null || by === null)
      return this.turns.alone(notice.bidId, () => this.unattributed(notice, traced, caller))
    return this.turns.beside(notice.bidId, () => this.attribute(notice, traced, record, by, caller))
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
    const only = { supplier: notice.ssp }
    const earliest = at - contextTtl()
    const seen =
      (await ledger.seenBid(ledgerBidId(notice.bidId), notice.event, earliest, only)) ||
      (traced.context === 'expired' && (await this.wonLongAgo(notice)))
    if (seen) return this.duplicate(notice, supplier, '', null)
    const owner = supplier === '' ? null : supplier
    let entry = unattributedEntry(notice, owner, reasonOf(traced), at)
    let result = await this.recorder.keep(entry)
    // the row stands but is older than `contextTtl`: another win under a bid id that came again
    if (
      result === 'stands' &&
      !(await ledger.seenBid(ledgerBidId(notice.bidId), notice.event, earliest, only))
    ) {
      entry = { ...entry, decision: `${bidIdentity(notice)}@${at}` }
      result = await this.recorder.keep(entry)
    }
    if (result !== 'recorded') return this.duplicate(notice, supplier, '', null)
    const placed = { ...only, status: 'attributed' as const }
    const look = () => ledger.seenBid(entry.bidId, notice.event, earliest, placed)
    if (entry.reason !== foreignBid && (await this.recorder.overtaken(entry, look)))
      return this.duplicate(notice, supplier, '', null)
    this.effects.count(supplier, '', 'unattributed', null, notice)
    return {
      status: 'unattributed',
      by: null,
      ...(traced.ambiguous ? { reason: 'ambiguous' } : {}),
    }
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
    traced: Traced,
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
    // reported before, when no node could tell whose it was
    const bare = {
      bidId: ledgerBidId(notice.bidId),
      event: notice.event,
      since: Math.max(earliest, Math.min(record.at, at) - clockSlack),
      supplier,
    }
    if (await ledger.standsFor(record.id, bare))
      return this.duplicate(notice, supplier, mode, by, record)
    const integration = this.deps.integration(supplier)
    const reason = unread ? `context_${traced.context}` : null
    const of = { record, by, late: traced.late, integration, reason }
    const entry = attributedEntry(notice, of, at)
    if ((await this.recorder.keep(entry)) !== 'recorded')
      return this.duplicate(notice, supplier, mode, by, record)
    if (await this.recorder.overtaken(entry, () => ledger.standsFor(record.id, bare)))
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
    code: 'svc_opd_required' | 'context_required',
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
