/** `GET /api/svc/audit/`: changes and their authors, newest first. An account sees changes of its own suppliers. */
import * as z from 'zod'
import { queryOf, type Route } from '../http/call.ts'
import { blockActions } from '../store/supplier-blocks.ts'
import { storable } from '../store/tables.ts'
import { type Access, everyone, find, visible } from './access.ts'

const querySchema = z.strictObject({
  limit: z
    .int('is a whole number, 1 to 1000')
    .min(1)
    .max(1000)
    .default(100)
    .describe('Entries of one page'),
  before: z
    .int('is a whole number')
    .min(0)
    .optional()
    .describe('Only entries with a smaller `id`, such as the last of the previous page'),
  ssp: z.string().optional().describe('Only entries of this supplier'),
})

/** `before` and `after` of `user_` actions are the user. */
const entrySchema = z
  .strictObject({
    id: z.int(),
    at: z.iso.datetime(),
    who: z.string(),
    account: z.string(),
    supplier: z.string(),
    action: z.enum([
      'create',
      'update',
      'hold',
      'void',
      'freeze',
      'unfreeze',
      'rollback',
      'reset',
      ...blockActions,
      'debug_log',
      'debug_profile',
      'debug_heap',
      'user_add',
      'user_passwd',
      'user_disable',
      'user_enable',
      'user_remove',
    ]),
    request_id: z.string(),
    before: z.unknown(),
    after: z.unknown(),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntry = z.infer<typeof entrySchema>

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
  query: querySchema,
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
        schema: z.array(entrySchema),
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
  problems: [404, 503],
  async handler(request, reply) {
    const { limit, before = Number.MAX_SAFE_INTEGER, ssp } = queryOf(querySchema, request)
    // account `*` also sees changes of removed suppliers and of `*`
    const all = request.caller!.account === everyone
    if (ssp !== undefined && !all) find(access, request, ssp)
    let select = access.store.db
      .selectFrom('audit')
      .selectAll()
      .where('id', '<', before)
      .orderBy('id', 'desc')
      .limit(limit)
    if (ssp !== undefined) select = select.where('supplier', '=', storable(ssp))
    else if (!all) {
      const ids = visible(access, request).map(({ id }) => id)
      if (ids.length === 0) return []
      select = select.where('supplier', 'in', ids)
    }
    const rows = await select.execute()
    const last = rows.at(-1)
    if (last !== undefined && rows.length === limit)
      reply.header('link', nextPage({ limit, ssp }, Number(last.id)))
    return rows.map(
      ({ before: was, after: is, at: time, action, ...row }): AuditEntry => ({
        ...row,
        at: new Date(Number(time)).toISOString(),
        action: action as AuditEntry['action'],
        before: was === null ? null : JSON.parse(was),
        after: is === null ? null : JSON.parse(is),
      }),
    )
  },
})
