/** Who may report which bids: authentication of notices (CONTRACT 2 `admin.impressions.auth`), and visibility of bids. */
import type { ContextState, LookupResult } from '../../opd/engine/types.ts'
import { TokenError } from '../auth/errors.ts'
import { type AccountOf, seesSupplier } from '../auth/roles.ts'
import { type Caller, foreignBid, type TokenVerifier } from '../ports.ts'

export type ImpressionAuth = 'bearer' | 'context' | 'none'

const bearerHeader = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/**
 * The caller of an access token that is optional; null if there is no token or it is not valid. Rejects if the token
 * cannot be verified at the moment, so that the platform sends the notice again.
 */
export async function callerOf(
  authorization: string | undefined,
  verifier: TokenVerifier | null,
): Promise<Caller | null> {
  const token = bearerHeader.exec(authorization ?? '')?.[1]
  if (token === undefined || verifier === null) return null
  try {
    return await verifier.verify(token)
  } catch (error) {
    if (error instanceof TokenError && error.code === 'unavailable') throw error
    // an invalid token counts as none, since a token is optional here
    return null
  }
}

/** An expired context proves that this service issued it. For attribution it counts as absent. */
const credentials: ReadonlySet<ContextState> = new Set(['valid', 'expired'])

export const isCredential = (context: ContextState) => credentials.has(context)

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
  if (ambiguous) return 'ambiguous'
  return unreadableContexts.has(context) ? `context_${context}` : 'unknown_bid'
}
