import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'

/** Returns true if it has sent a reply. It must not return the reply itself: awaiting a reply waits for its end. */
export type Replies = (request: FastifyRequest, reply: FastifyReply) => boolean | Promise<boolean>

/**
 * A hook that either passes a request on or replies to it. After a reply its promise never settles. If it did before
 * the response is written, fastify would continue with the handler; the same happens if the client disconnects first,
 * because fastify then regards the reply as ended.
 */
export const replyHook =
  (replies: Replies): onRequestAsyncHookHandler =>
  async (request, reply) => {
    if (await replies(request, reply)) await new Promise<never>(() => undefined)
  }

/** A hook that replies to every request of its route. */
export const alwaysReply = (answer: (request: FastifyRequest, reply: FastifyReply) => unknown) =>
  replyHook((request, reply) => {
    answer(request, reply)
    return true
  })
