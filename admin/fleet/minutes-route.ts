/** `GET /api/svc/minutes/`: the last two days by minute, of one supplier or of all that the account may see. */
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Authenticate, addRoute, jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { malformed } from '../http/problem.ts'
import { everyone, find, type Suppliers, visible } from '../management/access.ts'
import { instantIn, time } from '../reports/parameters.ts'
import { hour } from '../store/hour.ts'
import type { Store } from '../store/index.ts'
import { minute } from '../store/minute-sums.ts'
import { StoreThread } from '../store/store-thread.ts'
import { minutesSchema, readMinutes } from './minutes.ts'

interface MinutesDeps extends Suppliers {
  store: Store
  authenticate: Authenticate
  now: () => number
  currency: () => string
  /** Stores what this node has counted in the running minute. */
  flush: () => Promise<void>
}

const longest = 48 * hour
const stepFault = 'must be a whole number of minutes from 1 to 60'

const querySchema = z.strictObject({
  ssp: z.string().optional().describe('Only this supplier; by default the sums of all'),
  from: time.describe(
    'Start of the range: a date or a time (in UTC unless it has a zone), or milliseconds since 1970; by default an hour before `to`',
  ),
  to: time.describe('End of the range, exclusive; by default now'),
  step: z
    .number(stepFault)
    .int(stepFault)
    .min(1, stepFault)
    .max(60, stepFault)
    .default(1)
    .describe('Minutes of one entry'),
})

/**
 * The plugin of `/api/svc/minutes/`.
 *
 * @param deps the stored minutes of the last two days
 */
export function minutesCalls(deps: MinutesDeps): FastifyPluginAsync {
  const { store, authenticate, now, currency, flush } = deps
  const name = import.meta.url.endsWith('.ts') ? './minutes-thread.ts' : './minutes-thread.js'
  const module = new URL(name, import.meta.url)
  const thread = new StoreThread(store, { module, here: readMinutes })

  const route: Route = {
    method: 'GET',
    path: '/api/svc/minutes/',
    id: 'minutes',
    tag: 'reports',
    summary: 'Requests, failures, latency, bids, wins, kept wins and spend, and money by minute',
    description:
      'The last 48 hours, summed over all nodes; with more than 1,000,000 minutes of suppliers, the newest of them. An entry is null where no node ran. The running minute is up to date within 30 seconds.',
    role: 'viewer',
    query: querySchema,
    answers: { 200: jsonAnswer('Series of equal length, and what was changed', minutesSchema) },
    problems: [404, 503],
    async handler(request, reply) {
      const { ssp, step, ...range } = queryOf(querySchema, request)
      const time = now()
      const end = instantIn(range.to, 'UTC', time + 1)
      const begin = instantIn(range.from, 'UTC', end - hour)
      if (begin > end) throw malformed([{ pointer: 'from', detail: 'from is later than to' }])
      if (end - begin > longest)
        throw malformed([{ pointer: 'from', detail: 'a range covers at most 48 hours' }])
      const span = step * minute
      const all = ssp === undefined && request.caller!.account === everyone
      const among = ssp === undefined ? visible(deps, request) : [find(deps, request, ssp)]
      await flush()
      const bytes = await thread.run({
        suppliers: all ? null : among.map(({ id }) => id),
        only: ssp ?? null,
        from: Math.floor(begin / span) * span,
        to: Math.ceil(end / span) * span,
        step: span,
        now: time,
        currency: currency(),
      })
      return reply.type('application/json; charset=utf-8').send(Buffer.from(bytes.buffer))
    },
  }
  return async (app) => {
    app.addHook('onClose', () => thread.close())
    addRoute(app, route, authenticate)
  }
}
