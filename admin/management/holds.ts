/** `/api/svc/opd/`: holds one integration, or all, at factor 1. */
import * as z from 'zod'
import { jsonAnswer, type Route } from '../http/call.ts'
import { parsed } from '../http/json-body.ts'
import { malformed, problem } from '../http/problem.ts'
import { readHolds, setHold } from '../store/suppliers.ts'
import { type Access, entryOf, everyone, find, notFound, visible } from './access.ts'
import { holdSchema, holdStateSchema } from './schema.ts'

export function holdRoutes(access: Access): Route[] {
  const { store, changed, now } = access
  return [
    {
      method: 'GET',
      path: '/api/svc/opd/',
      id: 'listHolds',
      tag: 'management',
      summary: 'Which integrations are held at factor 1',
      role: 'viewer',
      answers: {
        200: jsonAnswer('All integrations (`*`) first', z.array(holdStateSchema), [
          { supplier: everyone, hold: false },
          { supplier: 'acme', hold: true },
        ]),
      },
      problems: [401, 403, 503],
      async handler(request) {
        const held = await readHolds(store.db)
        const ids = [everyone, ...visible(access, request).map(({ id }) => id)]
        return ids.map((supplier) => ({ supplier, hold: held.has(supplier) }))
      },
    },
    {
      method: 'PUT',
      path: '/api/svc/opd/{id}/',
      id: 'holdIntegration',
      tag: 'management',
      summary: 'Holds an integration, or all (`*`), at factor 1',
      description: 'Takes effect on every node within two seconds, and persists.',
      role: 'operator',
      params: { id: ['The supplier, or `*` for all', everyone] },
      body: { schema: holdSchema, example: { hold: true } },
      answers: {
        200: jsonAnswer('The state of the hold', holdStateSchema, {
          supplier: everyone,
          hold: true,
        }),
      },
      problems: [400, 401, 403, 404, 413, 415, 503],
      async handler(request, reply) {
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
    },
  ]
}
