/** `GET /opd/imp`: win notices of the platforms (SERVICE 4.7, CONTRACT 6). */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { admit, refuseToken } from '../auth/bearer.ts'
import { may } from '../auth/roles.ts'
import type { TokenErrorCode } from '../auth/tokens.ts'
import { addRoute, type Call, jsonAnswer } from '../http/call.ts'
import { type ProblemFault, problem } from '../http/problem.ts'
import type { TokenVerifier } from '../ports.ts'
import type { LossStore } from '../store/losses.ts'
import { callerOf } from './lookup.ts'
import { Losses, type RecordedLoss } from './losses.ts'
import { auditPrice, lossSchema, noticeSchema, parseLoss, parseNotice } from './notice.ts'
import { type NoticeDeps, type NoticeResult, Notices, type Rejection } from './process.ts'
import { type NoticeTracer, traceNotices } from './tracer.ts'

interface ImpressionDeps extends NoticeDeps {
  /** null: no token is valid. */
  verifier: TokenVerifier | null
  log: { error: (fields: object, message: string) => void }
  /** Whether some suppliers encode the prices of their notices. Called for each, since a reload may change it. */
  encodedPrices?: () => boolean
  losses: LossStore
  /** Called for each loss of a decision that was recorded. It must only buffer. */
  onLoss?: ((loss: RecordedLoss) => void) | undefined
  /** null, the default: no spans. */
  tracer?: NoticeTracer | null
  /** Notices in progress at a time; more are 503. */
  maxPending?: number
}

/** Errors: code, status, title. */
const refusals = {
  invalid_parameters: [400, 'A parameter of the notice is not valid'],
  svc_opd_required: [400, 'This integration is in margin mode: svc_opd is required'],
  context_required: [401, 'A valid svc_opd or an access token is required'],
  implausible_price: [422, 'The cleared price is too far above the price of the bid'],
  store_unavailable: [503, 'The win could not be stored: try again'],
} as const
type Refusal = keyof typeof refusals

const refuse = (
  reply: FastifyReply,
  code: Refusal,
  errors: Parameters<typeof problem>[4] = [],
): FastifyReply => problem(reply, refusals[code][0], code, refusals[code][1], errors)

const retryAfter = 1
/** Faults that are reported with the code. */
const faults: Readonly<Record<Rejection, ProblemFault[]>> = {
  svc_opd_required: [{ pointer: 'svc_opd', detail: 'svc_opd is missing' }],
  context_required: [],
  invalid_parameters: [],
  implausible_price: [
    { pointer: 'price', detail: 'price is more than clearing.maxOver times the price sent' },
  ],
}
/** A notice writes to the ledger, so it needs this role. */
const role = 'api'

const call: Call & { head: boolean } = {
  method: 'GET',
  path: '/opd/imp',
  id: 'reportWin',
  tag: 'prices',
  summary: 'A win notice of the platform',
  description:
    'The response is sent when the win is on disk. A repeated win is `duplicate` and changes nothing. If `admin.impressions.auth` is `bearer`, a token is required; if it is `context`, a valid `svc_opd` is the credential. Try again after 503, not after 400. 422: the cleared price is more than `clearing.maxOver` times the price sent; a later notice with another price counts.',
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
  problems: [400, 401, 403, 422, 503],
  // a HEAD request must not count a win
  head: false,
}

const lossCall: Call & { head: boolean } = {
  method: 'GET',
  path: '/opd/loss',
  id: 'reportLoss',
  tag: 'prices',
  summary: 'A loss notice of the platform',
  description:
    'Authentication is that of win notices. The response is sent when the loss is on disk. The model learns the loss at once, and from `min_to_win` what would have won. A repeated loss, or one of a bid whose win was reported, is `duplicate` and changes nothing.',
  role: { optional: role },
  query: lossSchema,
  answers: {
    200: jsonAnswer(
      'The notice was processed',
      z.object({ status: z.enum(['recorded', 'unattributed', 'duplicate']) }),
      { status: 'recorded' },
    ),
  },
  problems: [400, 401, 403, 503],
  head: false,
}

export function impressions(deps: ImpressionDeps): FastifyPluginAsync {
  const { auth, verifier, counters, log, maxPending = 10_000 } = deps
  const notices = new Notices(deps)
  if (auth === 'bearer' && verifier === null) throw new Error('auth bearer needs a verifier')

  /** If the token could not be verified, the notice is not counted as rejected: the platform sends it again. */
  function refuseUnverified(reply: FastifyReply, code: TokenErrorCode): FastifyReply {
    if (code === 'unavailable') counters.unavailable++
    else counters.countNotice('', '', 'rejected', 'none', 'none')
    return refuseToken(reply, code)
  }

  function rejected(
    reply: FastifyReply,
    code: Refusal,
    errors: Parameters<typeof problem>[4] = [],
  ) {
    counters.countNotice('', '', 'rejected', 'none', 'none')
    return refuse(reply, code, errors)
  }

  let refusedCount = 0
  let loggedAt = Number.NEGATIVE_INFINITY
  /** While the store is lost, thousands of notices a second fail: one log line a second has their number. */
  function logStoreFailure(error: string): void {
    refusedCount++
    if (performance.now() - loggedAt < 1000) return
    loggedAt = performance.now()
    log.error({ error, notices: refusedCount }, 'win notices could not be stored')
    refusedCount = 0
  }

  function unavailable(reply: FastifyReply) {
    counters.unavailable++
    return refuse(reply.header('retry-after', retryAfter), 'store_unavailable')
  }

  function answer(reply: FastifyReply, result: NoticeResult): FastifyReply {
    if (result.status !== 'rejected') return reply.send(result)
    const { code } = result
    if (code === 'context_required') reply.header('www-authenticate', 'Bearer')
    return refuse(reply, code, result.faults ?? faults[code])
  }

  /** A failure of the store is 503. */
  async function stored(
    reply: FastifyReply,
    work: () => Promise<FastifyReply>,
  ): Promise<FastifyReply> {
    try {
      return await work()
    } catch (error) {
      logStoreFailure((error as Error).message)
      return unavailable(reply)
    }
  }

  const refusalOf = async (request: FastifyRequest) =>
    auth === 'bearer' ? admit(request, verifier!, role) : null
  /** The caller, if the token permits notices. */
  async function trusted(request: FastifyRequest) {
    const caller = request.caller ?? (await callerOf(request.headers.authorization, verifier))
    return caller !== null && may(caller.roles, role) ? caller : null
  }

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const code = await refusalOf(request)
    if (code !== null) return refuseUnverified(reply, code)
    const encoded = deps.encodedPrices?.() ?? false
    const parsed = parseNotice(request.query as object, request.url, encoded)
    if ('faults' in parsed) return rejected(reply, 'invalid_parameters', parsed.faults)
    const { notice } = parsed
    if (notice.price !== auditPrice && notices.pending >= maxPending) return unavailable(reply)
    return stored(reply, async () =>
      answer(reply, await notices.process(notice, await trusted(request))),
    )
  }

  const losses = new Losses(deps)
  async function handleLoss(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const code = await refusalOf(request)
    if (code !== null) return refuseToken(reply, code)
    const parsed = parseLoss(request.query as object, request.url)
    if ('faults' in parsed) return refuse(reply, 'invalid_parameters', parsed.faults)
    if (losses.pending >= maxPending) return unavailable(reply)
    return stored(reply, async () => {
      const status = await losses.process(parsed.notice, await trusted(request))
      if (status !== 'rejected') return reply.send({ status })
      return refuse(reply.header('www-authenticate', 'Bearer'), 'context_required')
    })
  }

  return async (app) => {
    if (deps.tracer) traceNotices(app, deps.tracer)
    addRoute(app, { ...call, handler: handle })
    addRoute(app, { ...lossCall, handler: handleLoss })
  }
}
