/** `GET /opd/imp`: win notices of the platforms (SERVICE 4.7, CONTRACT 6). */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { admit, refuseToken } from '../auth/bearer.ts'
import type { TokenErrorCode } from '../auth/errors.ts'
import { may } from '../auth/roles.ts'
import { type ProblemFault, problem } from '../http/problem.ts'
import { alwaysReply } from '../http/reply-hook.ts'
import type { TokenVerifier } from '../ports.ts'
import { callerOf } from './authentication.ts'
import { auditPrice, parseNotice } from './notice.ts'
import { type NoticeDeps, Notices, type Outcome, type Rejection } from './process.ts'

export interface ImpressionDeps extends NoticeDeps {
  /** null: no token is ever valid. */
  verifier: TokenVerifier | null
  log: { error: (fields: object, message: string) => void }
  /** Notices under way at once; beyond, 503. */
  maxPending?: number
}

/** Every refusal: its code, its status, and whether the sender should try again. */
const refusals = {
  invalid_parameters: [400, 'The notice has bad parameters'],
  svc_opd_required: [400, 'This integration balances margins: svc_opd is required'],
  context_required: [401, 'A valid svc_opd or an access token is required'],
  method_not_allowed: [405, 'Only GET'],
  implausible_price: [422, 'The cleared price is too far above the price of the bid'],
  store_unavailable: [503, 'The win could not be stored: send it again'],
} as const
type Refusal = keyof typeof refusals

const refuse = (
  reply: FastifyReply,
  code: Refusal,
  errors: Parameters<typeof problem>[4] = [],
): FastifyReply => problem(reply, refusals[code][0], code, refusals[code][1], errors)

const retryAfter = 1
/** What of the notice is named beside the code. */
const faults: Readonly<Record<Rejection, ProblemFault[]>> = {
  svc_opd_required: [{ pointer: 'svc_opd', detail: 'svc_opd is missing' }],
  context_required: [],
  implausible_price: [
    { pointer: 'price', detail: 'price is more than clearing.maxOver times the price sent' },
  ],
}
/** A notice writes. */
const role = 'api'

export function impressions(deps: ImpressionDeps): FastifyPluginAsync {
  const { auth, verifier, counters, log, maxPending = 10_000 } = deps
  const notices = new Notices(deps)
  if (auth === 'bearer' && verifier === null) throw new Error('auth bearer wants a verifier')

  /** A token that could not be checked is no verdict: the notice comes again. */
  function refuseUnverified(reply: FastifyReply, code: TokenErrorCode): FastifyReply {
    if (code === 'unavailable') counters.unavailable++
    else counters.counted('', '', 'rejected', 'none', 'none')
    return refuseToken(reply, code)
  }

  function rejected(
    reply: FastifyReply,
    code: Refusal,
    errors: Parameters<typeof problem>[4] = [],
  ) {
    counters.counted('', '', 'rejected', 'none', 'none')
    return refuse(reply, code, errors)
  }

  let refusedCount = 0
  let loggedAt = Number.NEGATIVE_INFINITY
  /** Thousands a second are refused while the store is away: one line a second says how many. */
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

  function answer(reply: FastifyReply, outcome: Outcome): FastifyReply {
    if (outcome.status !== 'rejected') return reply.send(outcome)
    const { code } = outcome
    if (code === 'context_required') reply.header('www-authenticate', 'Bearer')
    return refuse(reply, code, faults[code])
  }

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const code = auth === 'bearer' ? await admit(request, verifier!, role) : null
    if (code !== null) return refuseUnverified(reply, code)
    const parsed = parseNotice(request.query as Record<string, string | string[]>, request.url)
    if ('faults' in parsed) return rejected(reply, 'invalid_parameters', parsed.faults)
    const { notice } = parsed
    if (notice.price !== auditPrice && notices.pending >= maxPending) return unavailable(reply)
    try {
      const caller = request.caller ?? (await callerOf(request.headers.authorization, verifier))
      return answer(
        reply,
        await notices.take(notice, caller !== null && may(caller.roles, role) ? caller : null),
      )
    } catch (error) {
      logStoreFailure((error as Error).message)
      return unavailable(reply)
    }
  }

  return async (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store')
    })
    // the queries hold bid ids and prices: they are not logged
    for (const url of ['/opd/imp', '/opd/imp/']) {
      app.get(url, { exposeHeadRoute: false, logLevel: 'silent' }, handle)
      app.route({
        method: app.supportedMethods.filter((method) => method !== 'GET'),
        url,
        logLevel: 'silent',
        // before a body is looked at
        onRequest: alwaysReply((_request, reply) =>
          refuse(reply.header('allow', 'GET'), 'method_not_allowed'),
        ),
        handler: async (_request, reply) => reply,
      })
    }
  }
}
