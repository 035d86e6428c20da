/**
 * `GET /api/svc/reports/{margin,wins,discrepancy}`: reports on wins and decided bids, by supplier, publisher, domain,
 * hour or day (CONTRACT 11).
 */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import { canSee } from '../auth/roles.ts'
import { problem } from '../http/problem.ts'
import type { Store } from '../store/index.ts'
import { parsedQuery, reports } from './report-query.ts'
import { createReportWorker } from './report-worker.ts'
import type { ReportRules } from './rows.ts'

export interface ReportsDeps {
  store: Store
  /** Suppliers of the configuration, with their accounts. */
  suppliers: () => readonly { id: string; account: string | null }[]
  bearer: preHandlerAsyncHookHandler
  now: () => number
  /** Writes counts that are still in memory. */
  flush: () => Promise<void>
  /** Absent: `win` is the event that counts, and there is one currency. */
  rules?: () => ReportRules
}

const defaultRules = (): ReportRules => ({ notices: {}, rates: null })

const types = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
} as const

export function reporting(deps: ReportsDeps): FastifyPluginAsync {
  const { store, suppliers, bearer, now, flush, rules = defaultRules } = deps
  const worker = createReportWorker(store)

  async function report(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { what } = request.params as { what: string }
    const columns = Object.hasOwn(reports, what) ? reports[what]! : null
    if (columns === null)
      return problem(reply, 404, 'unknown_report', `reports are ${Object.keys(reports).join(', ')}`)
    const query = parsedQuery(request.query as Record<string, unknown>, now())
    if (Array.isArray(query))
      return problem(reply, 400, 'malformed', 'The query is not valid', query)
    const caller = request.caller!
    const visible = suppliers()
      .filter(({ account }) => canSee(caller, account))
      .map(({ id }) => id)
    if (query.ssp !== undefined && !visible.includes(query.ssp))
      return problem(reply, 404, 'unknown_supplier', 'No such supplier')
    await flush()
    const scope = {
      ...query,
      suppliers: query.ssp === undefined ? visible : [query.ssp],
      all: caller.account === '*' && query.ssp === undefined,
    }
    const { format } = query
    const bytes = await worker.run({ scope, columns, format, rules: rules() })
    return reply.type(types[format]).send(Buffer.from(bytes.buffer))
  }

  return async (app) => {
    app.addHook('onClose', () => worker.close())
    // responses depend on the account
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store')
    })
    for (const url of ['/api/svc/reports/:what', '/api/svc/reports/:what/'])
      app.route({ method: 'GET', url, onRequest: bearer, exposeHeadRoute: true, handler: report })
  }
}
