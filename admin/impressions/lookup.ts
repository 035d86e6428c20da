/**
 * The decision of a notice: authentication (CONTRACT 2 `admin.impressions.auth`), look-up, visibility, and whether the ledger has its win.
 */
import type { ContextState, Engine, LookupResult } from '../../opd/engine/types.ts'
import { type AccountOf, type Caller, seesSupplier } from '../auth/roles.ts'
import type { Ledger } from '../store/ledger.ts'
import { clockSlack, foreignBid } from '../store/ledger-input.ts'
import { ledgerBidId } from './ledger-row.ts'
import type { Notice } from './notice.ts'

/** The part of the ledger that notices need. */
export type LedgerOfWins = Pick<Ledger, 'record' | 'seenBid'>

export type ImpressionAuth = 'bearer' | 'context' | 'none'

/** An expired context proves that this service issued it. For attribution it counts as absent. */
const credentials: ReadonlySet<ContextState> = new Set(['valid', 'expired'])

export const isCredential = (context: ContextState) => credentials.has(context)

/**
 * Traces the notice with the reading of its bid id that finds a decision. A context is bound to its bid id, so it
 * identifies the reading without a look-up. Otherwise each reading is looked up once, or not at all if `opens` forbids
 * it.
 */
export async function traceNotice(
  engine: Engine,
  { otherBidIds, ...plain }: Notice,
  opens: typeof isCredential | undefined,
): Promise<{ notice: Notice; found: LookupResult }> {
  const traceOne = async (notice: Notice) => ({
    notice,
    found: await engine.findDecision(notice, opens),
  })
  if (otherBidIds === undefined) return traceOne(plain)
  const readings = [plain, ...otherBidIds.map((bidId) => ({ ...plain, bidId }))]
  for (const each of readings)
    if (isCredential(engine.explain(each.svcOpd ?? '', each.bidId).context)) return traceOne(each)
  const first = await traceOne(plain)
  if (first.found.record !== null) return first
  for (const each of readings.slice(1)) {
    const other = await traceOne(each)
    if (other.found.record !== null) return other
  }
  return first
}

/** `foreign`: the bid belongs to another account. */
export type VisibleTrace = LookupResult & { foreign?: true }

/** A notice without context only finds decisions of the caller's own suppliers. */
export function visibleTrace(
  traced: LookupResult,
  caller: Caller | null,
  account: AccountOf,
): VisibleTrace {
  if (traced.by !== 'bid_log' || traced.record === null) return traced
  if (seesSupplier(caller, traced.record.supplier, account)) return traced
  return { ...traced, by: null, record: null, late: false, foreign: true }
}

/** States of contexts that were sent but could not be used. */
export const unreadableContexts: ReadonlySet<ContextState> = new Set(['invalid', 'expired'])

export function reasonOf({ foreign, ambiguous, context }: VisibleTrace): string {
  if (foreign) return foreignBid
  if (ambiguous.length > 0) return 'ambiguous'
  return unreadableContexts.has(context) ? `context_${context}` : 'unknown_bid'
}

export const isReported = (
  ledger: LedgerOfWins,
  { bidId, event }: Notice,
  since: number,
  only: Parameters<LedgerOfWins['seenBid']>[3],
): Promise<boolean> => ledger.seenBid(ledgerBidId(bidId), event, since, only)

/** Whether the win of an expired context was recorded before it expired. An expired context does not prove a win. */
export async function wonLongAgo(
  engine: Engine,
  ledger: LedgerOfWins,
  notice: Notice,
): Promise<boolean> {
  const { record } = engine.explain(notice.svcOpd ?? '', notice.bidId)
  if (record === null) return false
  const only = { status: 'attributed' as const, supplier: record.supplier }
  return isReported(ledger, notice, record.at - clockSlack, only)
}
