/** Which bids a caller may report, and the reason that an unattributed win is stored with. */
import type { ContextState, LookupResult } from '../../opd/engine/types.ts'
import { canSee } from '../auth/roles.ts'
import { type Caller, foreignBid } from '../ports.ts'

/** `foreign`: the bid belongs to another account. */
export type VisibleTrace = LookupResult & { foreign?: true }

type AccountOf = ((supplier: string) => string | undefined) | undefined

export function mayReport(supplier: string, caller: Caller | null, account: AccountOf): boolean {
  return account === undefined || caller === null || canSee(caller, account(supplier))
}

/** A notice without context only finds decisions of the caller's own suppliers. */
export function visibleTrace(
  traced: LookupResult,
  caller: Caller | null,
  account: AccountOf,
): VisibleTrace {
  if (traced.by !== 'bid_log' || traced.record === null) return traced
  if (mayReport(traced.record.supplier, caller, account)) return traced
  return { ...traced, by: null, record: null, late: false, foreign: true }
}

/** States of contexts that were sent but could not be used. */
export const unreadableContexts: ReadonlySet<ContextState> = new Set(['invalid', 'expired'])

export function reasonOf({ foreign, ambiguous, context }: VisibleTrace): string {
  if (foreign) return foreignBid
  if (ambiguous) return 'ambiguous'
  return unreadableContexts.has(context) ? `context_${context}` : 'unknown_bid'
}
