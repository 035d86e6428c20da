/**
 * `GET /api/svc/reports/{margin,wins,discrepancy}`: reports on wins and decided bids, by supplier, seat, publisher,
 * domain, country, device, format, size, deal, hour or day (CONTRACT 11).
 */
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, type Route } from '../http/call.ts'
import { find, type Suppliers, visible } from '../management/access.ts'
import type { Store } from '../store/index.ts'
import type { ReportRules } from './arms.ts'
import { type Report, reports, rowsSchema } from './columns.ts'
import { querySchema, reportOf } from './parameters.ts'
import { createReportWorker } from './report-worker.ts'
import { facetOf } from './scope.ts'
import { textOf } from './zone.ts'

interface ReportsDeps extends Suppliers {
  store: Store
  authenticate: Authenticate
  now: () => number
  /** Writes counts that are still in memory; `facets`: those of each facet too. */
  flush: (facets: boolean) => Promise<void>
  rules: () => ReportRules
}

const types = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
} as const

/** The last time that a Date can have. */
const lastTime = 8.64e15

/** The first and the last day of the range, or the only one. */
function fileName(name: string, from: number, to: number, tz: string): string {
  const days = [from, Math.max(from, to - 1)].map((time) =>
    textOf(Math.min(time, lastTime), tz).slice(0, 10),
  )
  return `bidweir-${name}-${[...new Set(days)].join('-to-')}.csv`
}

/**
 * The plugin of `/api/svc/reports/`.
 *
 * @param deps the thread that reads, and which suppliers a caller may see
 */
export function reporting(deps: ReportsDeps): FastifyPluginAsync {
  const { store, authenticate, now, flush, rules } = deps
  const worker = createReportWorker(store)

  const routeOf = (name: string, { summary, columns, largest }: Report): Route => ({
    method: 'GET',
    path: `/api/svc/reports/${name}`,
    id: `${name}Report`,
    tag: 'reports',
    summary: `${summary}, by one or two of supplier, seat, publisher, domain, via, country, device, format, size, deal, hour and day`,
    role: 'viewer',
    query: querySchema,
    answers: {
      200: {
        description: 'One row for each group; amounts in units of the base currency',
        content: [{ schema: rowsSchema(name, columns) }, { schema: z.string(), type: 'text/csv' }],
      },
    },
    problems: [404, 503],
    async handler(request, reply) {
      const query = reportOf(request, now())
      const { ssp, format, top: rows, from, to, tz } = query
      const top = rows === undefined ? undefined : { rows, by: largest }
      const among = ssp === undefined ? visible(deps, request) : [find(deps, request, ssp)]
      const scope = {
        ...query,
        suppliers: among.map(({ id }) => id),
        all: request.caller!.account === '*' && ssp === undefined,
      }
      await flush(facetOf(scope) !== null)
      const job = { scope, columns, format, top, rules: rules() }
      const bytes = await worker.run(job)
      if (format === 'csv')
        reply.header(
          'content-disposition',
          `attachment; filename="${fileName(name, from, to, tz)}"`,
        )
      return reply.type(types[format]).send(Buffer.from(bytes.buffer))
    },
  })

  return async (app) => {
    app.addHook('onClose', () => worker.close())
    for (const [name, definition] of Object.entries(reports))
      addRoute(app, routeOf(name, definition), authenticate)
  }
}
