/** Whose bid a caller may report, and why a win that nobody could place has no place. */
import type { ContextState, LookupResult } from '../../opd/engine/types.ts'
import { sees } from '../access.ts'
import { type Caller, foreignBid } from '../ports.ts'

/** `foreign`: the bid id is another account's, whose wins nothing of this caller's stands for. */
export type Owned = LookupResult & { foreign?: true }

type AccountOf = ((supplier: string) => string | undefined) | undefined

export function mayName(supplier: string, caller: Caller | null, account: AccountOf): boolean {
  return account === undefined || caller === null || sees(caller, account(supplier))
}

/** A bare bid id finds the decisions of one's own suppliers only. */
export function owned(traced: LookupResult, caller: Caller | null, account: AccountOf): Owned {
  if (traced.by !== 'bid_log' || traced.record === null) return traced
  if (mayName(traced.record.supplier, caller, account)) return traced
  return { ...traced, by: null, record: null, late: false, foreign: true }
}

/** A context came, and could not be read. */
export const sentButUnread: ReadonlySet<ContextState> = new Set(['invalid', 'expired'])

export function reasonOf({ foreign, ambiguous, context }: Owned): string {
  if (foreign) return foreignBid
  if (ambiguous) return 'ambiguous'
  return sentButUnread.has(context) ? `context_${context}` : 'unknown_bid'
}
