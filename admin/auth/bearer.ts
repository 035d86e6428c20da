/** Authentication of API calls by bearer token: RFC 6750, errors as problem documents (CONTRACT 8). */
import type { FastifyReply, FastifyRequest, preHandlerAsyncHookHandler } from 'fastify'
import { Problem } from '../http/problem.ts'
import { type Caller, may, type Role } from '../http/roles.ts'
import { TokenError, type TokenErrorCode, type TokenVerifier, tokenErrors } from './tokens.ts'

// RFC 6750 2.1; the scheme's case does not matter (RFC 9110 11.1)
const bearerScheme = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i
const tokenIn = (authorization: string) => bearerScheme.exec(authorization)?.[1]
/** Characters; Node's own limit for all headers is 16 KiB. */
const maxToken = 12_000

/**
 * The problem of a call that was refused.
 *
 * @param reply gets the headers of the refusal (RFC 6750 3)
 * @param code why
 */
export function tokenProblem(reply: FastifyReply, code: TokenErrorCode): Problem {
  const { problem, error, title } = tokenErrors[code]
  if (problem === 'unavailable') reply.header('retry-after', '5')
  else {
    const detail = error === null ? '' : `, error="${error}", error_description="${title}"`
    reply.header('www-authenticate', `Bearer realm="bidweir"${detail}`)
  }
  reply.header('cache-control', 'no-store')
  return new Problem(problem, { title })
}

function readToken(request: FastifyRequest): string {
  const { authorization } = request.headers
  if (authorization === undefined) throw new TokenError('missing')
  const token = authorization.length > maxToken ? undefined : tokenIn(authorization)
  if (token === undefined) throw new TokenError('malformed')
  return token
}

/**
 * Sets `request.caller` and returns null. If the call is refused, counts the reason and returns it. The token itself is
 * never logged.
 *
 * @param request its `Authorization` is read; `caller` is set
 * @param verifier of the realm of this node
 * @param role that the token must have, or one that includes it
 */
export async function admit(
  request: FastifyRequest,
  verifier: TokenVerifier,
  role: Role,
): Promise<TokenErrorCode | null> {
  const code = await check(request, verifier, role)
  if (code !== null) verifier.refused?.(code)
  return code
}

async function check(
  request: FastifyRequest,
  verifier: TokenVerifier,
  role: Role,
): Promise<TokenErrorCode | null> {
  try {
    const caller = await verifier.verify(readToken(request))
    if (!may(caller.roles, role)) return 'forbidden'
    request.caller = caller
    return null
  } catch (error) {
    if (error instanceof TokenError) return error.code
    request.log.error({ err: (error as Error).message }, 'a token could not be verified')
    return 'unavailable'
  }
}

/**
 * The caller of an access token that is optional; null if there is no token or it is not valid.
 *
 * @param request its `Authorization` is read, unless another hook has set `caller`
 * @param verifier null: tokens are not read
 * @throws TokenError `unavailable` if it cannot be verified at the moment, so that the platform sends the notice again
 */
export async function optionalCaller(
  { headers, caller }: FastifyRequest,
  verifier: TokenVerifier | null,
): Promise<Caller | null> {
  const token = tokenIn(headers.authorization ?? '')
  if (caller !== undefined || token === undefined || verifier === null) return caller ?? null
  try {
    return await verifier.verify(token)
  } catch (error) {
    if (error instanceof TokenError && error.code === 'unavailable') throw error
    // an invalid token counts as none, since a token is optional here
    return null
  }
}

/**
 * A hook that verifies the token before anything else is done: 401 without a valid token, 403 without `role` or a
 * role that includes it, 503 while no key of the issuer is known.
 *
 * @param verifier of the realm of this node
 * @param role the least that is admitted
 */
export function bearer(verifier: TokenVerifier, role: Role = 'api'): preHandlerAsyncHookHandler {
  return async (request, reply) => {
    const code = await admit(request, verifier, role)
    if (code !== null) throw tokenProblem(reply, code)
  }
}
