/** `GET /api/svc/curve/`: what the model expects of other prices, averaged over recent bids. */
import * as z from 'zod'
import type { OpdConfig } from '../../opd/config.ts'
import type { BidFacts, BidFilter, RecentBid } from '../../opd/learner.ts'
import type { Mode } from '../../opd/shared/arms.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { malformed, Problem } from '../http/problem.ts'
import { find, type Suppliers } from '../management/access.ts'

export interface CurveDeps extends Suppliers {
  /** The opd block of a supplier; null: OPD is off or its configuration is not valid. */
  activeOpd(ssp: string): OpdConfig | null
  /** Chance of winning of a bid at a price. */
  chance(mode: Mode, facts: BidFacts, price: number): number
  /** The newest settled bids that the model of this node knows. */
  recentBids(mode: Mode, filter: BidFilter, most: number): RecentBid[]
  currency(): string
}

const price = z.string().regex(/^\d{1,6}(\.\d{1,6})?$/, 'is a price')
const curveQuery = z.strictObject({
  ssp: z.string().describe('The supplier'),
  publisher: z.string().max(256).optional().describe('Only bids of this publisher'),
  domain: z.string().max(256).optional().describe('Only bids of this domain'),
  in: price
    .optional()
    .describe(
      'Of one bid with this inbound price, CPM in the base currency, and no other features than these; without it, of recent bids',
    ),
  floor: price.optional().describe('Floor of that one bid, CPM; only with `in`'),
})

const pointSchema = z.strictObject({
  factor: z.number(),
  price: z.number().describe('Mean outbound price, CPM; a bid never leaves below its floor'),
  win: z.number().describe('Mean chance of winning'),
  kept: z.number().nullable().describe('Chance of winning divided by that at factor 1'),
  margin: z.number().describe('Expected margin of 1,000 bids, in units of `currency`'),
})
const curveSchema = z.strictObject({
  mode: z.enum(['revenue', 'margin']),
  currency: z.string(),
  min_factor: z.number(),
  bids: z.int().nullable().describe('Number of recent bids that were averaged; null with `in`'),
  points: z.array(pointSchema),
})

export type WinCurve = z.infer<typeof curveSchema>

/** Factors from 0.5 to 1. */
const steps = 50
const factors = Array.from({ length: steps + 1 }, (_, index) =>
  Number((0.5 + (index * 0.5) / steps).toFixed(2)),
)
/** Bids that are averaged, which takes 2 ms. */
const most = 300
/** Fewer bids say nothing about those to come. */
const fewest = 20

/** The means over bids at each factor: of the outbound price, of the chance of winning, and of the margin. */
function averageCurve(bids: readonly RecentBid[]) {
  const sums = factors.map((factor) => ({ factor, price: 0, win: 0, margin: 0 }))
  for (const { inBa, floor, chances } of bids) {
    const prices = factors.map((factor) => Math.max(inBa * factor, Math.min(floor, inBa)))
    for (const [index, win] of chances(prices).entries()) {
      const sum = sums[index]!
      sum.price += prices[index]! / bids.length
      sum.win += win / bids.length
      sum.margin += ((inBa - prices[index]!) * win) / bids.length
    }
  }
  const total = sums.at(-1)!.win
  return sums.map((sum) => ({ ...sum, kept: total > 0 ? sum.win / total : null }))
}

export const curveRoute = (deps: CurveDeps): Route => ({
  method: 'GET',
  path: '/api/svc/curve/',
  id: 'winCurve',
  tag: 'reports',
  summary: 'The chance of winning and the expected margin by price, of recent bids or of one',
  description:
    'Means over the newest settled bids that the answering node knows, as its model estimates them now. With `in`, the estimate for one bid of which nothing else is known. Nothing is changed.',
  role: 'viewer',
  query: curveQuery,
  answers: { 200: jsonAnswer('From factor 0.5 to 1', curveSchema) },
  problems: [404],
  async handler(request) {
    const { ssp, publisher, domain, in: price, floor } = queryOf(curveQuery, request)
    find(deps, request, ssp)
    const config = deps.activeOpd(ssp)
    if (config === null) throw new Problem('opd_off')
    if (price === undefined && floor !== undefined)
      throw malformed([{ pointer: 'floor', detail: 'floor is of one bid: send in as well' }])
    const { mode, minFactor } = config
    const filter = { supplier: ssp, publisher, domain }
    const answer = (bids: readonly RecentBid[], counted: number | null) => ({
      ...{ mode, currency: deps.currency(), min_factor: minFactor, bids: counted },
      points: averageCurve(bids),
    })
    if (price !== undefined) {
      const facts: BidFacts = { ...filter, mode, inBa: Number(price), floor: Number(floor ?? 0) }
      const chances = (prices: readonly number[]) =>
        prices.map((price) => deps.chance(mode, facts, price))
      // prices below the floor are shown, too: the model says what they would win
      return answer([{ inBa: facts.inBa, floor: 0, chances }], null)
    }
    const bids = deps.recentBids(mode, filter, most)
    if (bids.length < fewest)
      throw new Problem('too_few_bids', {
        title: `Only ${bids.length} such bids are known, ${fewest} are needed`,
      })
    return answer(bids, bids.length)
  },
})
