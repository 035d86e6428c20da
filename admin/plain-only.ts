import type { onRequestAsyncHookHandler } from 'fastify'
import { problem } from './problem.ts'

/** A coded body is read by nobody here (RFC 9110 15.5.16). */
export const plainOnly: onRequestAsyncHookHandler = async (request, reply) => {
  if (/^(identity)?$/i.test(request.headers['content-encoding'] ?? '')) return
  // what is not returned is not waited for: the call would be made behind the refusal
  return problem(
    reply.header('accept-encoding', 'identity'),
    415,
    'unsupported_encoding',
    'The body must not be encoded',
  )
}
