/** `GET /api/svc/decisions/<svc_opd>?bid_id=`: why one bid had the price that it had (CONTRACT 11). */
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  preHandlerAsyncHookHandler,
} from 'fastify'
import type { DecisionRecord, Engine } from '../../opd/engine/types.ts'
import { armRules, type Guard, guards } from '../../opd/pricing/arms.ts'
import { canSee } from '../access.ts'
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
  holdout: 'left at in_ba to measure what the optimised bids keep',
  explored: 'priced at random within what is permitted, to learn',
  treated: 'priced by the model',
  shadow: 'the integration runs in shadow: decided and recorded, not applied',
  hold: 'an operator holds the integration',
  test: 'the request was a test: never money, never taught',
  no_rate: 'the currency has no exchange rate',
  floor: 'in_ba is not above the floor',
  outside: 'the auction is outside of the share that OPD prices',
  fixed: 'a bid that OPD may not change',
}

/** What a guard makes of a bid that the model would price. */
const guarded: Readonly<Record<Guard, string | null>> = {
  none: null,
  start: 'priced by the model, not deep yet: prices start shallow',
  silence: 'held at in_ba by a guard: notices have stopped',
  drop: 'held at in_ba by a guard: fewer wins than at this hour before',
  kept: 'held at in_ba by a guard: too few wins are kept',
  cleared: 'held at in_ba by a guard: wins clear above what was bid',
  number: 'held at in_ba by a guard: the model gave no number',
}

function reasonOf({ arm, winIn, guard }: DecisionRecord): string {
  // a hold that nobody asked for: the model was asked and gave nothing
  if (arm === 'hold' && winIn === undefined) return 'the model had no answer'
  return (arm === 'treated' && guard !== undefined ? guarded[guard] : null) ?? reasons[arm]
}

const roundTo = (digits: number, value: number) => Number(value.toFixed(digits))
const orNull = (value: number | undefined, digits: number) =>
  value === undefined ? null : roundTo(digits, value)

/** What the context does not carry is null: it is not looked up elsewhere. */
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

/** What the call answers, for the API document: every key, always. */
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
      return problem(reply, 400, 'invalid_parameters', 'The bid id is part of a context', [
        { pointer: 'bid_id', detail: `bid_id is ${bidId === undefined ? 'missing' : 'bad'}` },
      ])
    const { context, record, late } = engine.explain(request.params.svc_opd, bidId)
    // another account's decision and a context that cannot be read look the same
    if (record === null || !isVisible(request, record.supplier))
      return problem(reply, 404, 'unknown_decision', 'No decision of yours can be read from it')
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
