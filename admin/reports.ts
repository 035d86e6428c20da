/** `GET /api/svc/reports/{margin,wins,discrepancy}`: the ledger and the decided bids, by supplier, publisher, domain, hour or day (CONTRACT 11). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import { type ProblemFault, problem } from './problem.ts'
import { createDesk } from './reports/desk.ts'
import type { Readings, ReportRow } from './reports/rows.ts'
import type { Store } from './store/index.ts'

export interface ReportsDeps {
  store: Store
  /** Suppliers that the file names, with their accounts. */
  suppliers: () => readonly { id: string; account: string | null }[]
  bearer: preHandlerAsyncHookHandler
  now: () => number
  /** Writes what was counted but not yet stored. */
  flush: () => Promise<void>
  /** Absent: each win is a `win`, and there is one currency. */
  readings?: () => Readings
}

const plainReadings = (): Readings => ({ notices: {}, rates: null })

/** The columns of each report, in order. A new row is the whole change. */
const reports: Readonly<Record<string, readonly (keyof ReportRow)[]>> = {
  margin: [
    'key',
    'decided',
    'wins',
    'revenue',
    'cleared',
    'margin',
    'no_rate',
    'uplift',
    'uplift_low',
    'uplift_high',
  ],
  wins: ['key', 'decided', 'wins', 'win_rate', 'kept', 'kept_low', 'kept_high'],
  discrepancy: [
    'key',
    'decided',
    'wins',
    'unattributed',
    'rejected',
    'late',
    'over',
    'out_ba',
    'cleared',
    'difference',
    'no_rate',
  ],
}
const groups = ['ssp', 'publisher', 'domain', 'hour', 'day'] as const
export type Group = (typeof groups)[number]
const day = 86_400_000
const longestSpan = 400 * day

const types = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
} as const

interface Query {
  ssp: string | undefined
  from: number
  to: number
  by: Group
  format: keyof typeof types
}

function parsed(query: Record<string, unknown>, now: number): Query | ProblemFault[] {
  const faults: ProblemFault[] = []
  const one = (name: string) => {
    const value = query[name]
    if (Array.isArray(value)) faults.push({ pointer: name, detail: `${name} is sent twice` })
    return typeof value === 'string' ? value : undefined
  }
  const time = (name: string, otherwise: number) => {
    const text = one(name)
    if (text === undefined) return otherwise
    const at = /^\d+$/.test(text) ? Number(text) : Date.parse(text)
    if (!Number.isSafeInteger(at))
      faults.push({ pointer: name, detail: `${name} is a date or milliseconds since 1970` })
    return at
  }
  const choice = <T extends string>(name: string, allowed: readonly T[]): T => {
    const value = one(name) ?? allowed[0]!
    if (!allowed.includes(value as T))
      faults.push({ pointer: name, detail: `${name} is one of ${allowed.join(', ')}` })
    return value as T
  }
  const to = time('to', now + 1)
  const from = time('from', to - day)
  if (to - from > longestSpan)
    faults.push({ pointer: 'from', detail: 'a report spans at most 400 days' })
  if (from > to) faults.push({ pointer: 'from', detail: 'from is later than to' })
  const known = ['ssp', 'from', 'to', 'by', 'format']
  for (const name of Object.keys(query))
    if (!known.includes(name))
      faults.push({ pointer: name, detail: `known are ${known.join(', ')}` })
  const ssp = one('ssp')
  const result = {
    ssp,
    from,
    to,
    by: choice('by', groups),
    format: choice('format', ['json', 'csv'] as const),
  }
  return faults.length > 0 ? faults : result
}

export function reporting(deps: ReportsDeps): FastifyPluginAsync {
  const { store, suppliers, bearer, now, flush, readings = plainReadings } = deps
  const desk = createDesk(store)

  async function report(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { what } = request.params as { what: string }
    const columns = Object.hasOwn(reports, what) ? reports[what]! : null
    if (columns === null)
      return problem(reply, 404, 'unknown_report', `reports are ${Object.keys(reports).join(', ')}`)
    const query = parsed(request.query as Record<string, unknown>, now())
    if (Array.isArray(query))
      return problem(reply, 400, 'malformed', 'The query is not a report', query)
    const { account } = request.caller!
    const visible = suppliers()
      .filter((supplier) => account === '*' || supplier.account === account)
      .map(({ id }) => id)
    if (query.ssp !== undefined && !visible.includes(query.ssp))
      return problem(reply, 404, 'unknown_supplier', 'No such supplier')
    await flush()
    const scope = {
      ...query,
      suppliers: query.ssp === undefined ? visible : [query.ssp],
      all: account === '*' && query.ssp === undefined,
    }
    const { format } = query
    const bytes = await desk.ask({ scope, columns, format, readings: readings() })
    return reply.type(types[format]).send(Buffer.from(bytes.buffer))
  }

  return async (app) => {
    app.addHook('onClose', () => desk.close())
    for (const url of ['/api/svc/reports/:what', '/api/svc/reports/:what/'])
      app.route({ method: 'GET', url, preHandler: bearer, exposeHeadRoute: false, handler: report })
  }
}
