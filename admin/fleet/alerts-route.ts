/** `GET /api/svc/alerts/`: what is wrong and what was, newest first; `POST /api/svc/alerts/test/`: a call of the receiver. */
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Authenticate, jsonAnswer, jsonCalls, queryOf, type Route } from '../http/call.ts'
import { everyone, find, ofAllAccounts, type Suppliers, visible } from '../management/access.ts'
import { alertRound } from '../store/alerts.ts'
import type { Store } from '../store/index.ts'
import { storable } from '../store/tables.ts'
import { type Alerts, shownAlert } from './alerts.ts'

interface AlertCallsDeps extends Suppliers {
  store: Pick<Store, 'db'>
  authenticate: Authenticate
  alerts: Alerts
}

const limitFault = 'must be a whole number from 1 to 1000'

const querySchema = z.strictObject({
  state: z
    .enum(['open', 'ended'], { error: 'must be one of open, ended' })
    .optional()
    .describe('Only alerts that are open, or only those that have ended'),
  ssp: z.string().optional().describe('Only alerts of this supplier'),
  limit: z
    .number(limitFault)
    .int(limitFault)
    .min(1, limitFault)
    .max(1000, limitFault)
    .default(100)
    .describe('Alerts of one page'),
  before: z
    .number('must be a whole number')
    .int('must be a whole number')
    .optional()
    .describe('Only alerts with a smaller `id`, such as the last of the previous page'),
})

const alertSchema = z
  .strictObject({
    id: z.int(),
    rule: z.string().describe('What is wrong, as a name that stays the same'),
    level: z.enum(['bad', 'warn']),
    text: z.string().describe('As it was when the alert began, or when its level changed'),
    fix: z.string().nullable().describe('What to do; null: the text says it'),
    supplier: z.string().nullable().describe('null: a node'),
    node: z.string().nullable(),
    state: z.enum(['open', 'ended']),
    began: z.iso.datetime(),
    ended: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Alert' })

const answerSchema = z
  .strictObject({
    alerts: z.array(alertSchema),
    next: z.int().nullable().describe('`before` of the next page; null: there is none'),
    receiver: z
      .strictObject({
        state: z.enum(['none', 'good', 'failing']).describe('`none`: `admin.alerts` is null'),
        fault: z.string().nullable().describe('Why the last call failed; null: it did not'),
        next: z.iso.datetime().nullable().describe('When it is called again'),
      })
      .describe('The webhook `admin.alerts`'),
  })
  .meta({ id: 'Alerts' })
export type AlertsAnswer = z.infer<typeof answerSchema>

const testSchema = z
  .strictObject({ fault: z.string().nullable().describe('null: the receiver answered 2xx') })
  .meta({ id: 'AlertTest' })

const listRoute = (deps: AlertCallsDeps): Route => ({
  method: 'GET',
  path: '/api/svc/alerts/',
  id: 'listAlerts',
  tag: 'service',
  summary: 'What is wrong with suppliers and nodes, and what was, newest first',
  description:
    'The reasons of the states in `/api/svc/live/`, and the problems of nodes, once they have lasted for a minute. An alert ends when it has not been so for five minutes. Kept for 90 days. An account sees the alerts of its suppliers and of the nodes.',
  role: 'viewer',
  query: querySchema,
  answers: { 200: jsonAnswer('Alerts, and the state of their receiver', answerSchema) },
  problems: [404, 503],
  async handler(request) {
    const { limit, before, ssp, state } = queryOf(querySchema, request)
    const { db } = deps.store
    const all = request.caller!.account === everyone
    if (ssp !== undefined && !all) find(deps, request, ssp)
    let select = db
      .selectFrom('alerts')
      .selectAll()
      .where('opened', 'is not', null)
      .orderBy('id', 'desc')
      .limit(limit + 1)
    if (before !== undefined) select = select.where('id', '<', before)
    if (state !== undefined)
      select = select.where('ended', state === 'open' ? 'is' : 'is not', null)
    if (ssp !== undefined) select = select.where('supplier', '=', storable(ssp))
    else if (!all)
      select = select.where('supplier', 'in', ['', ...visible(deps, request).map(({ id }) => id)])
    const rows = await select.execute()
    const page = rows.slice(0, limit)
    const { fault, next } = await alertRound(db)
    const isFailing = fault !== null
    return {
      alerts: page.map(shownAlert),
      next: rows.length > limit ? page.at(-1)!.id : null,
      receiver: {
        state: deps.alerts.hasReceiver ? (isFailing ? 'failing' : 'good') : 'none',
        fault: deps.alerts.hasReceiver ? fault : null,
        next: deps.alerts.hasReceiver && isFailing ? new Date(next).toISOString() : null,
      },
    } satisfies AlertsAnswer
  },
})

const testRoute = ({ alerts }: AlertCallsDeps): Route => ({
  method: 'POST',
  path: '/api/svc/alerts/test/',
  id: 'testAlerts',
  tag: 'service',
  summary: 'Calls the receiver of alerts once, to see whether it answers',
  description: 'The event `alert_test`, signed like others. Nothing else is changed.',
  role: 'operator',
  answers: { 200: jsonAnswer('Whether it answered', testSchema) },
  handler: ofAllAccounts(async () => ({ fault: await alerts.sendTest() })),
})

/** Bytes. */
const bodyLimit = 1024

/**
 * The plugin of `/api/svc/alerts/`.
 *
 * @param deps the stored alerts, and which suppliers a caller may see
 */
export const alertCalls = (deps: AlertCallsDeps): FastifyPluginAsync =>
  jsonCalls([listRoute(deps), testRoute(deps)], deps.authenticate, bodyLimit)
