/** `/api/svc/opd/`: holds one integration, or all, at factor 1. */
import * as z from 'zod'
import { jsonAnswer, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { Problem } from '../http/problem.ts'
import { readHolds, setHold } from '../store/suppliers.ts'
import { type Access, changeOf, everyone, find, visible } from './access.ts'

const holdSchema = z.strictObject({ hold: z.boolean() }).meta({ id: 'Hold' })
/** The state of one hold; `*` is all integrations. */
const holdStateSchema = z
  .strictObject({ supplier: z.string(), hold: z.boolean() })
  .meta({ id: 'HoldState' })

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
      problems: [503],
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
      problems: [404, 503],
      async handler(request) {
        const { id } = request.params as { id: string }
        if (id !== everyone) find(access, request)
        // A hold of all integrations affects other accounts.
        else if (request.caller!.account !== everyone)
          throw new Problem('forbidden', { title: 'Only account * may hold all integrations' })
        const { hold } = bodyOf(holdSchema, request)
        await setHold(store, now(), hold, changeOf(request, id, 'hold'))
        changed()
        return { supplier: id, hold }
      },
    },
  ]
}
