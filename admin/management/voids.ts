/** `POST /api/svc/impressions/<decision>/void`: removes a win from all sums. A repetition changes nothing. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { problem } from '../http/problem.ts'
import { storable } from '../store/tables.ts'
import { voidWin } from '../store/voids.ts'
import { type Access, entryOf, visible } from './access.ts'

export function voidCall(access: Access) {
  const { store, now } = access
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { decision } = request.params as { decision: string }
    const all = request.caller!.account === '*'
    const ids = new Set(visible(access, request).map(({ id }) => id))
    const win = await voidWin(
      store,
      storable(decision),
      now(),
      // account `*` may also void wins of removed suppliers
      (supplier) => all || ids.has(supplier),
      (supplier) => entryOf(request, supplier, 'void'),
    )
    return win === null
      ? problem(reply, 404, 'unknown_win', 'No such win')
      : reply.send({ decision, status: 'voided', ...win })
  }
}
