import { occurrences } from '../../opd/shared/header-list.ts'
import { problem } from './problem.ts'
import { replyHook } from './reply-hook.ts'

/**
 * Requires exactly one Host (RFC 9112 3.2) and at most one Authorization (RFC 9110 5.3, 11.6.2). Node uses the first
 * of two values, and a proxy in front of this listener might use the other.
 */
export const singularFields = replyHook(({ raw: { rawHeaders, httpVersion } }, reply) => {
  const hosts = occurrences(rawHeaders, 'host')
  const oneHost = hosts === 1 || (hosts === 0 && httpVersion === '1.0')
  if (oneHost && occurrences(rawHeaders, 'authorization') <= 1) return false
  const title = oneHost ? 'At most one Authorization is allowed' : 'Exactly one Host is required'
  problem(reply.header('connection', 'close'), 400, 'malformed', title)
  return true
})
