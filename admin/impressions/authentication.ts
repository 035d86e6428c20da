/** Authentication of win notices: by token, by context or not at all (CONTRACT 2 `admin.impressions.auth`). */
import type { ContextState } from '../../opd/engine/types.ts'
import { TokenError } from '../auth/errors.ts'
import type { Caller, TokenVerifier } from '../ports.ts'

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
