import { problem } from './problem.ts'
import { replyHook } from './reply-hook.ts'

/** Encoded bodies are not supported (RFC 9110 15.5.16). */
export const rejectEncodedBody = replyHook((request, reply) => {
  if (/^(identity)?$/i.test(request.headers['content-encoding'] ?? '')) return false
  problem(
    reply.header('accept-encoding', 'identity'),
    415,
    'unsupported_encoding',
    'The body must not be encoded',
  )
  return true
})
