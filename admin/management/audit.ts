/** `GET /api/svc/audit/`: changes and their authors, newest first. An account sees changes of its own suppliers. */
import * as z from 'zod'
import { parsedQuery, type Route } from '../http/call.ts'
import { malformed } from '../http/problem.ts'
import { storable } from '../store/tables.ts'
import { type Access, notFound, visible } from './access.ts'
import { type AuditResource, auditEntrySchema, auditQuerySchema } from './schema.ts'

/** RFC 8288: the entries before these. */
function nextPage({ limit, ssp }: { limit: number; ssp: string | undefined }, before: number) {
  const query = new URLSearchParams({ limit: String(limit), before: String(before) })
  if (ssp !== undefined) query.set('ssp', ssp)
  return `</api/svc/audit/?${query}>; rel="next"`
}

export const auditRoute = (access: Access): Route => ({
  method: 'GET',
  path: '/api/svc/audit/',
  id: 'listAudit',
  tag: 'management',
  summary: 'Changes and their authors, newest first',
  role: 'viewer',
  query: auditQuerySchema,
  answers: {
    200: {
      description: 'Entries of the suppliers that the account may see',
      headers: {
        Link: {
          description: 'RFC 8288: `rel="next"` if the page is full',
          schema: { type: 'string' },
        },
      },
      content: {
        schema: z.array(auditEntrySchema),
        example: [
          {
            id: 7,
            at: '2026-01-31T12:00:00.000Z',
            who: 'admin',
            account: '*',
            supplier: 'acme',
            action: 'hold',
            request_id: '3f0c6f4e-9d0b-4a57-8b0e-2f6f3b1d9c55',
            before: false,
            after: true,
          },
        ],
      },
    },
  },
  problems: [400, 401, 403, 404, 503],
  async handler(request, reply) {
    const query = parsedQuery(auditQuerySchema, request.query)
    if ('faults' in query) return malformed(reply, query.faults)
    const { limit, before = Number.MAX_SAFE_INTEGER, ssp } = query.value
    const all = request.caller!.account === '*'
    const ids = visible(access, request).map(({ id }) => id)
    // account `*` also sees changes of removed suppliers and of `*`
    if (ssp !== undefined && !all && !ids.includes(ssp)) return notFound(reply)
    let select = access.store.db
      .selectFrom('audit')
      .selectAll()
      .where('id', '<', before)
      .orderBy('id', 'desc')
      .limit(limit)
    if (ssp !== undefined) select = select.where('supplier', '=', storable(ssp))
    else if (!all) {
      if (ids.length === 0) return reply.send([])
      select = select.where('supplier', 'in', ids)
    }
    const rows = await select.execute()
    const last = rows.at(-1)
    if (last !== undefined && rows.length === limit)
      reply.header('link', nextPage({ limit, ssp }, Number(last.id)))
    return reply.send(
      rows.map(
        ({ before: was, after: is, at, action, ...row }): AuditResource => ({
          ...row,
          at: new Date(Number(at)).toISOString(),
          action: action as AuditResource['action'],
          before: was === null ? null : JSON.parse(was),
          after: is === null ? null : JSON.parse(is),
        }),
      ),
    )
  },
})
