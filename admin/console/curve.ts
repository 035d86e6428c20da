/** `GET /api/svc/curve/`: what the model expects of other prices of a bid. */
import * as z from 'zod'
import type { OpdConfig } from '../../opd/config.ts'
import type { BidFacts } from '../../opd/learner.ts'
import type { Mode } from '../../opd/shared/arms.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { Problem } from '../http/problem.ts'
import { find, type Suppliers } from '../management/access.ts'

export interface CurveDeps extends Suppliers {
  /** The opd block of a supplier; null: OPD is off or its configuration is not valid. */
  activeOpd(ssp: string): OpdConfig | null
  /** Chance of winning at a price; null: the model has no curve. */
  chance(mode: Mode, facts: BidFacts, price: number): number | null
  currency(): string
}

const price = z.string().regex(/^\d{1,6}(\.\d{1,6})?$/, 'is a price')
const curveQuery = z.strictObject({
  ssp: z.string().describe('The supplier'),
  publisher: z.string().max(256).optional(),
  domain: z.string().max(256).optional(),
  in: price.describe('Inbound price, CPM in the base currency'),
  floor: price.default('0').describe('Floor of the auction, CPM in the base currency'),
})

const pointSchema = z.strictObject({
  factor: z.number(),
  price: z.number().describe('Outbound price, CPM'),
  win: z.number().describe('Chance of winning'),
  kept: z.number().nullable().describe('Chance of winning divided by that at factor 1'),
  margin: z.number().describe('Expected margin of 1,000 bids, in units of `currency`'),
})
const curveSchema = z.strictObject({
  mode: z.enum(['revenue', 'margin']),
  currency: z.string(),
  min_factor: z.number(),
  points: z.array(pointSchema),
})

export type WinCurve = z.infer<typeof curveSchema>

/** Factors from 0.5 to 1. */
const steps = 50

export const curveRoute = (deps: CurveDeps): Route => ({
  method: 'GET',
  path: '/api/svc/curve/',
  id: 'winCurve',
  tag: 'reports',
  summary: 'The chance of winning and the expected margin by price',
  description: 'As the model of the answering node estimates them now. Nothing is changed.',
  role: 'viewer',
  query: curveQuery,
  answers: { 200: jsonAnswer('From factor 0.5 to 1', curveSchema) },
  problems: [404],
  async handler(request) {
    const { ssp, publisher, domain, in: price, floor } = queryOf(curveQuery, request)
    find(deps, request, ssp)
    const { chance } = deps
    const config = deps.activeOpd(ssp)
    if (config === null) throw new Problem(404, 'opd_off', 'OPD is off for this supplier')
    const { mode, minFactor } = config
    const inBa = Number(price)
    const facts: BidFacts = {
      supplier: ssp,
      mode,
      inBa,
      floor: Number(floor),
      ...(publisher === undefined ? {} : { publisher }),
      ...(domain === undefined ? {} : { domain }),
    }
    const whole = chance(mode, facts, inBa)
    if (whole === null) throw new Problem(404, 'no_curve', 'The model has no win curve')
    const points = Array.from({ length: steps + 1 }, (_, at) => {
      const factor = Number((0.5 + (at * 0.5) / steps).toFixed(2))
      const out = inBa * factor
      const win = chance(mode, facts, out) ?? 0
      const kept = whole > 0 ? win / whole : null
      return { factor, price: out, win, kept, margin: (inBa - out) * win }
    })
    return { mode, currency: deps.currency(), min_factor: minFactor, points }
  },
})
