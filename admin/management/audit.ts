/** `GET /api/svc/audit/`: changes and their authors, newest first. An account sees changes of its own suppliers. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ProblemFault } from '../http/problem.ts'
import { storable } from '../store/tables.ts'
import { type Access, malformed, notFound, visible } from './access.ts'
import type { AuditResource } from './schema.ts'

export const page = { most: 1000, usual: 100 } as const

interface Query {
  limit: number
  before: number
  ssp: string | undefined
}

function parsed(query: Readonly<Record<string, unknown>>): Query | ProblemFault[] {
  const faults: ProblemFault[] = []
  const text = (name: string) => {
    const value = query[name]
    if (value === undefined || typeof value === 'string') return value
    faults.push({ pointer: name, detail: `${name} is repeated` })
    return undefined
  }
  const whole = (name: string, otherwise: number, least: number, most: number) => {
    const given = text(name)
    if (given === undefined) return otherwise
    const value = /^\d{1,16}$/.test(given) ? Number(given) : -1
    if (value < least || value > most)
      faults.push({ pointer: name, detail: `${name} is a whole number, ${least} to ${most}` })
    return value
  }
  const result = {
    limit: whole('limit', page.usual, 1, page.most),
    before: whole('before', Number.MAX_SAFE_INTEGER, 0, Number.MAX_SAFE_INTEGER),
    ssp: text('ssp'),
  }
  for (const name of Object.keys(query))
    if (!Object.hasOwn(result, name))
      faults.push({ pointer: name, detail: `the parameters are ${Object.keys(result).join(', ')}` })
  return faults.length > 0 ? faults : result
}

export function auditCall(access: Access) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const query = parsed(request.query as Record<string, unknown>)
    if (Array.isArray(query)) return malformed(reply, query)
    const { limit, before, ssp } = query
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
  }
}
