/** `GET /opd/imp`: win notices of the platforms (SERVICE 4.7, CONTRACT 6), and their spans. */
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { admit, optionalCaller, tokenProblem } from '../auth/bearer.ts'
import type { TokenVerifier } from '../auth/tokens.ts'
import { addRoute, jsonAnswer, type Route } from '../http/call.ts'
import { type ProblemFault, problem } from '../http/problem.ts'
import { type ProblemCode, problems } from '../http/problems.ts'
import { type Caller, may } from '../http/roles.ts'
import { type LossDeps, processLoss } from './losses.ts'
import { auditPrice, lossSchema, noticeSchema, parseLoss, parseNotice } from './notice.ts'
import type { Notices, Rejection } from './process.ts'

/** Times are `performance.now()`. */
export interface FinishedNotice {
  path: string
  arrived: number
  ended: number
  /** The status of the response. */
  code: number
  /** The status of the notice, and by what it was attributed; null: refused, or by nothing. */
  status: string | null
  by: string | null
  bidId: string | null
}

export interface NoticeSpan {
  end(notice: FinishedNotice): void
}

export interface NoticeTracer {
  /** `fields`: a flat list of names and values, as received. null: the notice is not sampled. */
  beginNotice(fields: readonly string[]): NoticeSpan | null
}

interface ImpressionDeps extends LossDeps {
  notices: Notices
  /** null: no token is valid. */
  verifier: TokenVerifier | null
  log: { error: (fields: object, message: string) => void }
  /** Whether some suppliers encode the prices of their notices. Called for each, since a reload may change it. */
  encodedPrices: () => boolean
  /** null: no spans. */
  tracer: NoticeTracer | null
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : null)

/** Traces the routes of this plugin. Of the query only the bid id is recorded. */
function traceNotices(app: FastifyInstance, tracer: NoticeTracer): void {
  const spans = new WeakMap<FastifyRequest, { span: NoticeSpan; arrived: number }>()
  app.addHook('onRequest', async (request) => {
    const span = tracer.beginNotice(request.raw.rawHeaders)
    if (span !== null) spans.set(request, { span, arrived: performance.now() })
  })
  app.addHook('onSend', async (request, reply, payload) => {
    const begun = spans.get(request)
    if (begun === undefined) return payload
    const accepted = reply.statusCode === 200 && typeof payload === 'string'
    const { status, by } = (accepted ? JSON.parse(payload) : {}) as Record<string, unknown>
    begun.span.end({
      path: request.routeOptions.url ?? '',
      arrived: begun.arrived,
      ended: performance.now(),
      code: reply.statusCode,
      status: textOf(status),
      by: textOf(by),
      bidId: textOf((request.query as Record<string, unknown>)['bid_id']),
    })
    return payload
  })
}

/** Notices in progress at a time, and losses; more are 503. */
const maxPending = 10_000

/** Faults that are reported with a refusal unless it has its own. */
const faultsOf: Readonly<Partial<Record<ProblemCode, readonly ProblemFault[]>>> = {
  svc_opd_required: [{ pointer: 'svc_opd', detail: 'svc_opd is missing' }],
  implausible_price: [
    {
      pointer: 'price',
      detail: 'price is 0, or more than clearing.maxOver times the price sent',
    },
  ],
}

function refuse(
  reply: FastifyReply,
  code: Rejection | 'store_unavailable',
  faults: readonly ProblemFault[] = faultsOf[code] ?? [],
): FastifyReply {
  const [status, title] = problems[code]
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  if (status === 503) reply.header('retry-after', 1)
  return problem(reply, status, code, title, faults)
}

/** A notice writes to the ledger, so it needs this role. */
const role = 'api'

const call: Omit<Route, 'handler'> = {
  method: 'GET',
  path: '/opd/imp',
  id: 'reportWin',
  tag: 'prices',
  summary: 'A win notice of the platform',
  description:
    'The response is sent when the win is on disk. A repeated win is `duplicate` and changes nothing. If `admin.impressions.auth` is `bearer`, a token is required; if it is `context`, a valid `svc_opd` is the credential. Try again after 503, not after 400. 422: the cleared price is 0, or more than `clearing.maxOver` times the price sent; a later notice with another price counts. An optional parameter that is empty, or has a macro that was not expanded, counts as absent.',
  role: { optional: role },
  query: noticeSchema,
  answers: {
    200: jsonAnswer(
      'The notice was processed',
      z.object({
        status: z.enum(['attributed', 'unattributed', 'duplicate', 'ignored']),
        by: z.enum(['context', 'bid_log']).nullable(),
        late: z.literal(true).optional(),
        reason: z.string().optional(),
      }),
      { status: 'attributed', by: 'context' },
    ),
  },
  problems: [422, 503],
  // a HEAD request must not count a win
  head: false,
}

const lossCall: Omit<Route, 'handler'> = {
  method: 'GET',
  path: '/opd/loss',
  id: 'reportLoss',
  tag: 'prices',
  summary: 'A loss notice of the platform',
  description:
    'Authentication is that of win notices. The response is sent when the loss is on disk. The model learns the loss at once, and from `min_to_win` what would have won. A repeated loss, or one of a bid whose win was reported, is `duplicate` and changes nothing. An optional parameter that is empty, or has a macro that was not expanded, counts as absent.',
  role: { optional: role },
  query: lossSchema,
  answers: {
    200: jsonAnswer(
      'The notice was processed',
      z.object({ status: z.enum(['recorded', 'unattributed', 'duplicate']) }),
      { status: 'recorded' },
    ),
  },
  problems: [503],
  head: false,
}

/**
 * The plugin of `/opd/imp` and `/opd/loss`.
 *
 * @param deps ledger, tokens and limits of notices
 */
export function impressions(deps: ImpressionDeps): FastifyPluginAsync {
  const { auth, verifier, counters, log, notices } = deps
  if (auth === 'bearer' && verifier === null) throw new Error('auth bearer needs a verifier')

  let failures = 0
  let loggedAt = Number.NEGATIVE_INFINITY
  /** While the store is lost, thousands of notices a second fail: one line a second logs their number. */
  function logStoreFailure(error: string): void {
    failures++
    if (performance.now() - loggedAt < 1000) return
    loggedAt = performance.now()
    log.error({ error, notices: failures }, 'win notices could not be stored')
    failures = 0
  }

  function unavailable(reply: FastifyReply) {
    counters.unavailable++
    return refuse(reply, 'store_unavailable')
  }

  /**
   * Runs `work` if fewer than the limit are pending, or if it is not limited. A failure of the store is 503. A notice is
   * pending while it waits for the store, not while the keys of an issuer are fetched.
   */
  function limited() {
    let pending = 0
    return async (
      request: FastifyRequest,
      reply: FastifyReply,
      work: (caller: Caller | null) => Promise<FastifyReply>,
      isLimited = true,
    ) => {
      if (isLimited && pending >= maxPending) return unavailable(reply)
      const counts = Number(isLimited)
      try {
        const caller = await trusted(request)
        pending += counts
        return await work(caller).finally(() => {
          pending -= counts
        })
      } catch (error) {
        logStoreFailure((error as Error).message)
        return unavailable(reply)
      }
    }
  }
  const [limitedNotice, limitedLoss] = [limited(), limited()]

  const countRejected = () => counters.countNotice('', '', 'rejected', 'none', 'none')

  const refusalOf = async (request: FastifyRequest) =>
    auth === 'bearer' ? admit(request, verifier!, role) : null
  /** The caller, if the token permits notices. */
  async function trusted(request: FastifyRequest) {
    const caller = await optionalCaller(request, verifier)
    return caller !== null && may(caller.roles, role) ? caller : null
  }

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const code = await refusalOf(request)
    if (code !== null) {
      // not rejected if the token could not be verified: the platform sends the notice again
      if (code === 'unavailable') counters.unavailable++
      else countRejected()
      throw tokenProblem(reply, code)
    }
    const parsed = parseNotice(request.query as object, request.url, deps.encodedPrices())
    if ('faults' in parsed) {
      countRejected()
      return refuse(reply, 'invalid_parameters', parsed.faults)
    }
    const { notice } = parsed
    const work = async (caller: Caller | null) => {
      const result = await notices.process(notice, caller)
      if (result.status !== 'rejected') return reply.send(result)
      return refuse(reply, result.code, result.faults)
    }
    return limitedNotice(request, reply, work, notice.price !== auditPrice)
  }

  async function handleLoss(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const code = await refusalOf(request)
    if (code !== null) throw tokenProblem(reply, code)
    const parsed = parseLoss(request.query as object, request.url)
    if ('faults' in parsed) return refuse(reply, 'invalid_parameters', parsed.faults)
    return limitedLoss(request, reply, async (caller) => {
      const status = await processLoss(deps, parsed.notice, caller)
      return status === 'rejected' ? refuse(reply, 'context_required') : reply.send({ status })
    })
  }

  return async (app) => {
    if (deps.tracer !== null) traceNotices(app, deps.tracer)
    addRoute(app, { ...call, handler: handle })
    addRoute(app, { ...lossCall, handler: handleLoss })
  }
}
