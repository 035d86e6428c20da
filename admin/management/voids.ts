/** `POST /api/svc/impressions/<decision>/void`: removes a win from all sums. A repetition changes nothing. */
import * as z from 'zod'
import { jsonAnswer, type Route } from '../http/call.ts'
import { Problem } from '../http/problem.ts'
import { storable } from '../store/tables.ts'
import { voidWin } from '../store/voids.ts'
import { type Access, changeOf, everyone, visible } from './access.ts'

const voidedSchema = z
  .strictObject({
    decision: z.string(),
    status: z.literal('voided'),
    supplier: z.string(),
    events: z.array(z.enum(['win', 'billing'])),
  })
  .meta({ id: 'VoidedWin' })

export const voidRoute = (access: Access): Route => ({
  method: 'POST',
  path: '/api/svc/impressions/{decision}/void/',
  id: 'voidWin',
  tag: 'management',
  summary: 'Removes a win from all sums',
  description:
    'Voids all events of the decision. The rows stay, with the status `voided`; a repeated notice of the win is a duplicate. Voiding a win twice changes nothing. The model is not changed.',
  role: 'operator',
  params: { decision: ['The decision: `id` of the explain call', 'bf_SYc-nqWIAAAAB'] },
  answers: {
    200: jsonAnswer('The win is voided', voidedSchema, {
      decision: 'bf_SYc-nqWIAAAAB',
      status: 'voided',
      supplier: 'acme',
      events: ['win'],
    }),
  },
  problems: [404, 413, 415, 503],
  async handler(request) {
    const { decision } = request.params as { decision: string }
    const all = request.caller!.account === everyone
    const ids = new Set(visible(access, request).map(({ id }) => id))
    const win = await voidWin(
      access.store,
      storable(decision),
      access.now(),
      // account `*` may also void wins of removed suppliers
      (supplier) => all || ids.has(supplier),
      (supplier) => changeOf(request, supplier, 'void'),
    )
    if (win === null) throw new Problem('unknown_win')
    return { decision, status: 'voided', ...win }
  },
})
