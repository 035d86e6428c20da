/**
 * The decision of a notice: the credential (CONTRACT 2 `admin.impressions.auth`), the look-up, visibility, and whether
 * the ledger has its win.
 */
import type { ContextState, Engine, LookupResult } from '../../opd/types.ts'
import { type AccountOf, type Caller, seesSupplier } from '../http/roles.ts'
import type { Ledger } from '../store/ledger.ts'
import { clockSlack, foreignBid } from '../store/ledger-input.ts'
import { ledgerBidId, provisional } from './ledger-row.ts'
import type { Notice } from './notice.ts'

/** The part of the engine that notices need. */
export type NoticeEngine = Pick<
  Engine,
  | 'findDecision'
  | 'loggedSuppliers'
  | 'explain'
  | 'rate'
  | 'recordWin'
  | 'learnWin'
  | 'learnLoss'
  | 'withdrawExposure'
>

/** The part of the ledger that notices need. */
export type LedgerOfWins = Pick<Ledger, 'record' | 'seenBid'>

export type ImpressionAuth = 'bearer' | 'context' | 'none'

/** An expired context still proves that this service issued it. For attribution it counts as absent. */
const credentials: ReadonlySet<ContextState> = new Set(['valid', 'expired'])

export const isCredential = (context: ContextState) => credentials.has(context)

/**
 * The decision of a notice, and the notice with the reading of its bid id that has it. A context is bound to its bid id,
 * so it identifies the reading. Without one, the readings are looked up in order until one has a decision.
 */
export async function findDecision(
  engine: Pick<Engine, 'findDecision' | 'explain'>,
  { otherBidIds, ...plain }: Notice,
  mayUseLog: typeof isCredential | undefined,
  arrivedAt?: number,
): Promise<{ notice: Notice; found: LookupResult }> {
  const lookUp = async (notice: Notice) => ({
    notice,
    found: await engine.findDecision(
      arrivedAt === undefined ? notice : { ...notice, receivedAt: arrivedAt },
      mayUseLog,
    ),
  })
  if (otherBidIds === undefined) return lookUp(plain)
  const readings = [plain, ...otherBidIds.map((bidId) => ({ ...plain, bidId }))]
  for (const reading of readings)
    if (isCredential(engine.explain(reading.svcOpd ?? '', reading.bidId).context))
      return lookUp(reading)
  const first = await lookUp(plain)
  if (first.found.record !== null || first.found.provisional) return first
  for (const reading of readings.slice(1)) {
    const other = await lookUp(reading)
    if (other.found.record !== null) return other
  }
  return first
}

/** `foreign`: the bid belongs to another account. */
export type VisibleLookup = LookupResult & { foreign?: true }

/** Removes a decision of the bid log that the caller may not see; a context is a credential by itself. */
export function visibleTo(
  found: LookupResult,
  caller: Caller | null,
  account: AccountOf,
): VisibleLookup {
  if (found.by !== 'bid_log' || found.record === null) return found
  if (seesSupplier(caller, found.record.supplier, account)) return found
  return { ...found, by: null, record: null, late: false, foreign: true }
}

/** States of contexts that were sent but could not be used. */
export const unreadableContexts: ReadonlySet<ContextState> = new Set(['invalid', 'expired'])

export function reasonOf({ foreign, ambiguous, context, ...lookup }: VisibleLookup): string {
  if (foreign) return foreignBid
  if (lookup.provisional) return provisional
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
export async function wonBeforeExpiry(
  engine: Pick<Engine, 'findDecision' | 'explain'>,
  ledger: LedgerOfWins,
  notice: Notice,
): Promise<boolean> {
  const { record } = engine.explain(notice.svcOpd ?? '', notice.bidId)
  if (record === null) return false
  const only = { status: 'attributed' as const, supplier: record.supplier }
  return isReported(ledger, notice, record.decidedAt - clockSlack, only)
}
