/** Who may report wins: a token, the context itself, or anyone (CONTRACT 2 `admin.impressions.auth`). */
import type { ContextState } from '../../opd/engine/types.ts'
import { TokenError } from '../auth/errors.ts'
import type { Caller, TokenVerifier } from '../ports.ts'

export type ImpressionAuth = 'bearer' | 'context' | 'none'

const bearerHeader = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/**
 * The caller of a valid access token where none is asked for; null where there is none, or it does not verify. Throws
 * where that cannot be told now: a notice that its token would have let in must come again.
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
    // not a token of ours: as good as none where none is asked for
    return null
  }
}

/** An expired context was still ours: it opens the door, and counts as absent behind it. */
const credentials: ReadonlySet<ContextState> = new Set(['valid', 'expired'])

export const isCredential = (context: ContextState) => credentials.has(context)
