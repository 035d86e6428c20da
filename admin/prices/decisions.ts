/** `GET /api/svc/decisions/`: explains the price of one bid, by its context or its bid id (CONTRACT 11). */
import type { FastifyPluginAsync } from 'fastify'
import * as z from 'zod'
import { type Arm, armRules, arms, type Guard, guards, modes } from '../../opd/shared/arms.ts'
import type { DecisionRecord, Engine } from '../../opd/types.ts'
import {
  type Authenticate,
  addRoute,
  jsonAnswer,
  parsedQuery,
  queryOf,
  type Route,
} from '../http/call.ts'
import { Problem } from '../http/problem.ts'
import { type AccountOf, seesSupplier } from '../http/roles.ts'

export interface DecisionsDeps {
  engine: Engine
  account: AccountOf
}

const querySchema = z.object({
  bid_id: z.string().min(1, 'is not valid').describe('The bid id, which the context is bound to'),
})

const money = z.string().describe('CPM in `currency`, exact')
const chance = z.number().min(0).max(1).nullable()

/** Fields that the context does not contain are null. */
const decisionSchema = z.strictObject({
  id: z.string(),
  bid_id: z.string(),
  ssp: z.string(),
  mode: z.enum(modes),
  context: z.literal('valid'),
  decided_at: z.iso.datetime(),
  late: z.boolean().describe('A win now would come after attributionWindow'),
  arm: z.enum(arms),
  reason: z.string(),
  priced: z.boolean(),
  in_ba: money,
  out_ba: money,
  price_dsp: z
    .string()
    .nullable()
    .describe('CPM in `currency`, exact: the demand-side price that a standalone bid came with'),
  currency: z.string(),
  floor: z.number().nullable(),
  factor: z.number(),
  propensity: z.number().describe('Of the arm, among the bids that are priced'),
  win_in: chance,
  win_out: chance,
  theta: z.number().nullable(),
  lambda: z.number().nullable().describe('CPM in the base currency'),
  guard: z.enum(guards).nullable(),
  model_version: z.int(),
  publisher: z.string().nullable(),
  domain: z.string().nullable(),
  seat: z.string().nullable(),
  trains: z.boolean(),
  feature_bytes: z.int(),
})
export type Decision = z.infer<typeof decisionSchema>

const example: Decision = {
  id: 'bf_SYc-nqWIAAAAB',
  bid_id: 'b1',
  ssp: 'acme',
  mode: 'revenue',
  context: 'valid',
  decided_at: '2026-11-21T07:24:19.328Z',
  late: false,
  arm: 'treated',
  reason: 'priced by the model',
  priced: true,
  in_ba: '2.1',
  out_ba: '1.9',
  price_dsp: null,
  currency: 'USD',
  floor: 0.5,
  factor: 0.904762,
  propensity: 0.9751,
  win_in: 0.41,
  win_out: 0.39,
  theta: 2.68,
  lambda: 0.05,
  guard: 'none',
  model_version: 7,
  publisher: 'pub-1',
  domain: 'news.example',
  seat: 'seat-1',
  trains: true,
  feature_bytes: 51,
}

/** One sentence for each arm. */
const reasons: Readonly<Record<Arm, string>> = {
  holdout: 'left at in_ba, as the baseline for optimised bids',
  explored: 'priced at random within the permitted range, to learn',
  treated: 'priced by the model',
  shadow: 'the integration is in shadow mode: the price was decided and recorded, not applied',
  hold: 'an operator holds the integration',
  test: 'the request was a test: it counts no money and trains no model',
  no_rate: 'the currency has no exchange rate',
  floor: 'in_ba is not above the floor, so there is no room for a lower price',
  below_floor: 'the price is below the floor: the bid cannot win at any price that may be sent',
  outside: 'the auction is outside the share that OPD prices',
  unchecked: 'held at in_ba by a guard: the win notices of the supplier prove nothing',
  capped: 'OPD has taken off the most that is allowed on one day',
  fixed: 'OPD may not change this bid',
}

/** The reason for a treated bid while a guard is active. */
const guarded: Readonly<Record<Guard, string | null>> = {
  none: null,
  start: 'priced by the model, with small reductions at first',
  silence: 'held at in_ba by a guard: notices have stopped',
  drop: 'held at in_ba by a guard: fewer wins for each bid than in the hours before',
  kept: 'held at in_ba by a guard: too few wins are kept',
  cleared: 'held at in_ba by a guard: wins cleared above the price that was bid, or far below it',
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

function explained(record: DecisionRecord, late: boolean): Decision {
  const { arm } = record
  return {
    id: record.id,
    bid_id: record.bidId,
    ssp: record.supplier,
    mode: record.mode,
    context: 'valid',
    decided_at: new Date(record.decidedAt).toISOString(),
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
    seat: record.seat ?? null,
    trains: record.trains,
    feature_bytes: record.features.length,
  }
}

const bidQuery = z.strictObject({
  bid_id: z.string().min(1).max(512),
  ssp: z.string().optional().describe('The supplier, if several have sent this bid id'),
})

/**
 * Without a context: the latest decision of the bid log.
 *
 * @param deps `account`: the account of a supplier by its id, null: of none
 */
export const bidRoute = ({ engine, account }: DecisionsDeps): Route => ({
  method: 'GET',
  path: '/api/svc/decisions/',
  id: 'explainBid',
  tag: 'reports',
  summary: 'Explains the latest decision of a bid id',
  description:
    'From the bid log, which keeps decisions for `contextTtl`, or less if there are many. With the context of the bid, use `/api/svc/decisions/{svc_opd}`.',
  role: 'viewer',
  query: bidQuery,
  answers: { 200: jsonAnswer('The decision', decisionSchema) },
  problems: [404, 409],
  async handler(request) {
    const { bid_id: bidId, ssp } = queryOf(bidQuery, request)
    const sees = (supplier: string) => seesSupplier(request.caller, supplier, account)
    const found = await engine.findDecision({ bidId, svcOpd: undefined, ssp, sees })
    const [first] = found.ambiguous
    if (first !== undefined) {
      const detail = `${found.ambiguous.join(', ')} have sent this bid id: name one, as in ssp=${first}`
      const title = 'Several suppliers have sent this bid id'
      throw new Problem('ambiguous', { title, faults: [{ pointer: 'ssp', detail }] })
    }
    if (found.record === null)
      throw new Problem('unknown_decision', { title: 'No visible decision for this bid id' })
    return explained(found.record, found.late)
  },
})

/**
 * The plugin of the call that explains a decision.
 *
 * @param deps `account`: the account of a supplier by its id, null: of none
 */
export function decisions({
  engine,
  authenticate,
  account,
}: DecisionsDeps & { authenticate: Authenticate }): FastifyPluginAsync {
  const explain: Route = {
    method: 'GET',
    path: '/api/svc/decisions/{svc_opd}',
    id: 'explainDecision',
    tag: 'reports',
    summary: 'Explains the price of one bid',
    role: 'viewer',
    params: { svc_opd: ['The context', 'AQEx'] },
    query: querySchema,
    answers: { 200: jsonAnswer('The decision, from its context', decisionSchema, example) },
    problems: [404, 410],
    async handler(request) {
      const query = parsedQuery(querySchema, request.query)
      if ('faults' in query) {
        const title = 'A context can only be read with its bid id'
        throw new Problem('invalid_parameters', { title, faults: query.faults })
      }
      const { svc_opd } = request.params as { svc_opd: string }
      const { context, record, late } = engine.explain(svc_opd, query.value.bid_id)
      // a decision of another account and an unreadable context have the same response
      if (record === null || !seesSupplier(request.caller, record.supplier, account))
        throw new Problem('unknown_decision', { title: 'No visible decision for this context' })
      if (context === 'expired') throw new Problem('expired')
      return explained(record, late)
    },
  }
  return async (app) => addRoute(app, explain, authenticate)
}
