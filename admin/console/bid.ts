/** `GET /api/svc/decisions/?bid_id=`: explains the latest decision of a bid id, from the bid log. */
import * as z from 'zod'
import type { Engine } from '../../opd/engine/types.ts'
import { type AccountOf, seesSupplier } from '../auth/roles.ts'
import { parsedQuery, type Route } from '../http/call.ts'
import { malformed, problem } from '../http/problem.ts'
import { decisionSchema, explained } from '../prices/decisions.ts'

export interface BidDeps {
  engine: Pick<Engine, 'findDecision'>
  account: AccountOf
}

const bidQuery = z.strictObject({
  bid_id: z.string().min(1).max(512),
  ssp: z.string().optional().describe('The supplier, if several have sent this bid id'),
})

export const bidRoute = ({ engine, account }: BidDeps): Route => ({
  method: 'GET',
  path: '/api/svc/decisions/',
  id: 'explainBid',
  tag: 'reports',
  summary: 'Explains the latest decision of a bid id',
  description:
    'From the bid log, which keeps decisions for `contextTtl`, or less if there are many. With the context of the bid, use `/api/svc/decisions/{svc_opd}`.',
  role: 'viewer',
  query: bidQuery,
  answers: { 200: { description: 'The decision', content: { schema: decisionSchema } } },
  problems: [400, 401, 403, 404, 409],
  async handler(request, reply) {
    const query = parsedQuery(bidQuery, request.query)
    if ('faults' in query) return malformed(reply, query.faults)
    const { bid_id: bidId, ssp } = query.value
    const sees = (supplier: string) => seesSupplier(request.caller, supplier, account)
    const found = await engine.findDecision({ bidId, svcOpd: undefined, ssp, sees })
    const [first] = found.ambiguous
    if (first !== undefined) {
      const detail = `${found.ambiguous.join(', ')} have sent this bid id: name one, as in ssp=${first}`
      const title = 'Several suppliers have sent this bid id'
      return problem(reply, 409, 'ambiguous', title, [{ pointer: 'ssp', detail }])
    }
    if (found.record === null)
      return problem(reply, 404, 'unknown_decision', 'No visible decision for this bid id')
    return explained(found.record, found.late)
  },
})
