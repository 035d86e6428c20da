/** `GET /api/svc/decisions/<svc_opd>?bid_id=`: explains the price of one bid (CONTRACT 11). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type { DecisionRecord, Engine } from '../../opd/engine/types.ts'
import { armRules, type Guard, guards } from '../../opd/pricing/arms.ts'
import { canSee } from '../auth/roles.ts'
import { problem } from '../http/problem.ts'

export interface DecisionsDeps {
  engine: Engine
  bearer: preHandlerAsyncHookHandler
  account?: ((supplier: string) => string | undefined) | undefined
}

interface DecisionRoute {
  Params: { svc_opd: string }
  Querystring: Record<string, string | string[]>
}

/** One sentence for each arm. */
const reasons: Readonly<Record<DecisionRecord['arm'], string>> = {
  holdout: 'left at in_ba, as the baseline for optimised bids',
  explored: 'priced at random within the permitted range, to learn',
  treated: 'priced by the model',
  shadow: 'the integration is in shadow mode: the price was decided and recorded, not applied',
  hold: 'an operator holds the integration',
  test: 'the request was a test: it counts no money and trains no model',
  no_rate: 'the currency has no exchange rate',
  floor: 'in_ba is not above the floor',
  outside: 'the auction is outside the share that OPD prices',
  fixed: 'OPD may not change this bid',
}

/** The reason for a treated bid while a guard is active. */
const guarded: Readonly<Record<Guard, string | null>> = {
  none: null,
  start: 'priced by the model, with small reductions at first',
  silence: 'held at in_ba by a guard: notices have stopped',
  drop: 'held at in_ba by a guard: fewer wins than at this hour on earlier days',
  kept: 'held at in_ba by a guard: too few wins are kept',
  cleared: 'held at in_ba by a guard: wins cleared above the price that was bid',
  number: 'held at in_ba by a guard: the model returned no number',
}

function reasonOf({ arm, winIn, guard }: DecisionRecord): string {
  // a hold without a win rate: no operator set it, the model returned no decision
  if (arm === 'hold' && winIn === undefined) return 'the model returned no decision'
  return (arm === 'treated' && guard !== undefined ? guarded[guard] : null) ?? reasons[arm]
}

const roundTo = (digits: number, value: number) => Number(value.toFixed(digits))
const orNull = (value: number | undefined, digits: number) =>
  value === undefined ? null : roundTo(digits, value)

/** Fields that the context does not contain are null. */
function explained(record: DecisionRecord, late: boolean) {
  const { arm } = record
  return {
    id: record.id,
    bid_id: record.bidId,
    ssp: record.supplier,
    mode: record.mode,
    context: 'valid',
    decided_at: new Date(record.at).toISOString(),
    late,
    arm,
    reason: reasonOf(record),
    priced: armRules[arm].priced,
    in_ba: record.inBa,
    out_ba: record.outBa,
    price_dsp: record.priceDsp ?? null,
    currency: record.currency,
    floor: record.floor ?? null,
    factor: roundTo(6, Number(record.outBa) / Number(record.inBa)),
    propensity: record.propensity,
    win_in: orNull(record.winIn, 4),
    win_out: orNull(record.winOut, 4),
    theta: record.theta ?? null,
    lambda: record.lambda ?? null,
    guard: record.guard ?? null,
    model_version: record.modelVersion,
    publisher: record.publisher === '' ? null : record.publisher,
    domain: record.domain === '' ? null : record.domain,
    teaches: record.teaches,
    feature_bytes: record.features.length,
  }
}

const text = { type: 'string' }
const chance = { type: ['number', 'null'], minimum: 0, maximum: 1 }
const number = { type: ['number', 'null'] }
const money = { type: 'string', description: 'CPM in `currency`, exact' }

/** The properties of the response, for the API document. All are always present. */
export const decisionProperties = {
  id: text,
  bid_id: text,
  ssp: text,
  mode: { enum: ['revenue', 'margin'] },
  context: { const: 'valid' },
  decided_at: { type: 'string', format: 'date-time' },
  late: { type: 'boolean', description: 'A win now would come after attributionWindow' },
  arm: { enum: Object.keys(reasons) },
  reason: text,
  priced: { type: 'boolean' },
  in_ba: money,
  out_ba: money,
  price_dsp: {
    type: ['string', 'null'],
    description: 'CPM in `currency`, exact: the demand-side price that a standalone bid came with',
  },
  currency: text,
  floor: number,
  factor: { type: 'number' },
  propensity: { type: 'number', description: 'Of the arm, among the bids that are priced' },
  win_in: chance,
  win_out: chance,
  theta: number,
  lambda: { ...number, description: 'CPM in the base currency' },
  guard: { enum: [...guards, null] },
  model_version: { type: 'integer' },
  publisher: { type: ['string', 'null'] },
  domain: { type: ['string', 'null'] },
  teaches: { type: 'boolean' },
  feature_bytes: { type: 'integer' },
} satisfies Record<keyof ReturnType<typeof explained>, object>

export function decisions(deps: DecisionsDeps): FastifyPluginAsync {
  const { engine, bearer, account } = deps

  function isVisible(request: FastifyRequest, supplier: string): boolean {
    return account === undefined || canSee(request.caller!, account(supplier))
  }

  async function explain(
    request: FastifyRequest<DecisionRoute>,
    reply: FastifyReply,
  ): Promise<FastifyReply> {
    const bidId = request.query['bid_id']
    if (typeof bidId !== 'string' || bidId === '')
      return problem(
        reply,
        400,
        'invalid_parameters',
        'A context can only be read with its bid id',
        [
          {
            pointer: 'bid_id',
            detail: `bid_id is ${bidId === undefined ? 'missing' : 'not valid'}`,
          },
        ],
      )
    const { context, record, late } = engine.explain(request.params.svc_opd, bidId)
    // a decision of another account and an unreadable context have the same response
    if (record === null || !isVisible(request, record.supplier))
      return problem(reply, 404, 'unknown_decision', 'No visible decision for this context')
    if (context === 'expired')
      return problem(reply, 410, 'expired', 'The context is older than contextTtl')
    return reply.send(explained(record, late))
  }

  return async (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store')
    })
    for (const url of ['/api/svc/decisions/:svc_opd', '/api/svc/decisions/:svc_opd/'])
      app.get<DecisionRoute>(url, { onRequest: bearer, exposeHeadRoute: true }, explain)
  }
}
