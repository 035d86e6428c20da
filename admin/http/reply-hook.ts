import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'

/** True: it has answered. The answer itself is not returned: awaited, a reply is a wait for its end. */
export type Replies = (request: FastifyRequest, reply: FastifyReply) => boolean | Promise<boolean>

/**
 * A hook that lets through or answers. Behind an answer it never settles: fastify goes on with the call where a hook
 * settles before the answer is written, and that is so, too, where the caller leaves before it (its end is awaited, and
 * to have no listener is an end).
 */
export const replyHook =
  (replies: Replies): onRequestAsyncHookHandler =>
  async (request, reply) => {
    if (await replies(request, reply)) await new Promise<never>(() => undefined)
  }

/** A hook of a path, or of a method, that is for nothing else. */
export const alwaysReply = (answer: (request: FastifyRequest, reply: FastifyReply) => unknown) =>
  replyHook((request, reply) => {
    answer(request, reply)
    return true
  })
