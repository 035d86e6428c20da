/** `/api/svc/opd/`: holds one integration, or all, at factor 1. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { problem } from '../http/problem.ts'
import { readHolds, setHold } from '../store/suppliers.ts'
import { type Access, entryOf, find, malformed, notFound, visible } from './access.ts'
import { parsed } from './body.ts'
import { holdSchema } from './schema.ts'

const everyone = '*'

export function holdCalls(access: Access) {
  const { store, changed, now } = access
  return {
    async list(request: FastifyRequest): Promise<{ supplier: string; hold: boolean }[]> {
      const held = await readHolds(store.db)
      const ids = [everyone, ...visible(access, request).map(({ id }) => id)]
      return ids.map((supplier) => ({ supplier, hold: held.has(supplier) }))
    },
    async put(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
      const { id } = request.params as { id: string }
      const all = id === everyone
      // A hold of all integrations affects other accounts.
      if (all && request.caller!.account !== everyone)
        return problem(reply, 403, 'forbidden', 'Only account * may hold all integrations')
      if (!all && find(access, request) === undefined) return notFound(reply)
      const body = parsed(request.body, holdSchema)
      if ('faults' in body) return malformed(reply, body.faults)
      const { hold } = body.value
      await setHold(store, now(), hold, entryOf(request, id, 'hold'))
      changed()
      return reply.send({ supplier: id, hold })
    },
  }
}
