/**
 * `GET /api/svc/funnel/`: what OPD earned today by the holdout, what it cost, how far the bids of each supplier come, and how
 * much more it would earn without what stops them. Money is in units of the base currency.
 */
import * as z from 'zod'
import { type Mode, modes } from '../../opd/shared/arms.ts'
import { type Interval, keptWins, uplift } from '../../opd/shared/confidence.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { canSee } from '../http/roles.ts'
import type { SupplierFigures } from './figures.ts'
import { type FunnelFault, funnelCounts, funnelFaults, funnelSteps, isUnchecked } from './funnel.ts'
import { isKnown } from './health.ts'
import type { KeptSums } from './kept-sums.ts'
import {
  type AskLive,
  isNoticed,
  type LiveDeps,
  type LiveQuestion,
  sendAnswer,
  summedFigures,
  units,
} from './live.ts'
import type { LiveState } from './live-schema.ts'

export interface FunnelDeps extends LiveDeps {
  /** Of all nodes, since midnight UTC. */
  today: Pick<KeptSums, 'read' | 'armsOf'>
}

const count = z.number().min(0)
const intervalSchema = z
  .strictObject({ at: z.number(), lower: z.number(), upper: z.number() })
  .nullable()

const stepSchema = z.strictObject({
  step: z.enum(funnelSteps),
  count,
  share: z.number().nullable().describe('Its share of the step before; null: it has none'),
})

const faultSchema = z.strictObject({
  step: z.enum(funnelSteps).describe('Where the bids stop'),
  text: z.string(),
  fix: z.string().describe('What to do'),
  mail: z.string().describe('What to write to the supplier, or to whoever reports wins'),
  bids: count.describe('Bids a day for which OPD earns nothing, or nothing that can be checked'),
  perDay: z
    .number()
    .nullable()
    .describe('What OPD would earn with them a day; null: no uplift is known'),
})

const supplierSchema = z
  .strictObject({
    ssp: z.string(),
    name: z.string(),
    opd: z.enum(['on', 'shadow', 'off', 'invalid']).nullable(),
    steps: z.array(stepSchema).describe('Of the last minutes'),
    faults: z.array(faultSchema).describe('In the order of the steps'),
    earned: intervalSchema.describe('Today; null: too few wins, no holdout, or not to be checked'),
  })
  .meta({ id: 'FunnelSupplier' })

const funnelSchema = z
  .strictObject({
    at: z.number().describe('Milliseconds since the epoch'),
    since: z.number().describe('When today began: midnight UTC'),
    window: z.number().describe('Length of the last minutes in seconds'),
    currency: z.string().describe('Currency of all amounts, in units'),
    earned: intervalSchema.describe(
      'Margin of the optimized bids of today minus what they would have at the rate of the holdout',
    ),
    wins: count.describe('Wins today of the suppliers in `earned`'),
    lostWins: z.number().describe('Wins that lower prices cost them; negative: they have more'),
    bids: count.describe('Bids that OPD priced today'),
    unchecked: z.array(z.string()).describe('Suppliers whose notices do not prove what they earn'),
    perDay: z.number().nullable().describe('What is possible besides, a day'),
    suppliers: z.array(supplierSchema).describe('Those with the most at stake first'),
  })
  .meta({ id: 'Funnel' })

const funnelQuery = z.strictObject({
  ssp: z.string().optional().describe('`suppliers` has only this one'),
  only: z.enum(['faults']).optional().describe('`suppliers` has only those with a fault'),
})

export type Funnel = z.infer<typeof funnelSchema>
export type FunnelSupplier = z.infer<typeof supplierSchema>

const day = 86_400

interface Measured {
  id: string
  name: string
  opd: LiveState | null
  figures: SupplierFigures | undefined
  faults: FunnelFault[]
}

type ArmsOf = (mode: Mode) => ReturnType<KeptSums['armsOf']>

/** What the optimized bids earned more than at their own prices; null: too few wins are known. */
function earnedOf(armsOf: ArmsOf) {
  const total = { amount: 0, half: 0, bids: 0, wins: 0, lost: 0 }
  let isMeasured = false
  for (const mode of modes) {
    const arms = armsOf(mode)
    if (arms === null) continue
    const { optimised, holdout } = arms
    const perBid = uplift(optimised, holdout)
    const kept = keptWins(optimised, holdout)
    if (perBid === null || kept === null || !isKnown(kept)) continue
    isMeasured = true
    total.amount += units(perBid.at * optimised.bids)
    total.half = Math.hypot(total.half, units((perBid.upper - perBid.at) * optimised.bids))
    total.bids += optimised.bids
    total.wins += optimised.wins
    total.lost += (holdout.wins * optimised.bids) / holdout.bids - optimised.wins
  }
  return isMeasured ? total : null
}

const asInterval = ({ amount, half }: { amount: number; half: number }): Interval => ({
  ...{ at: amount, lower: amount - half, upper: amount + half },
})

/** Sums of independent amounts. Null without any. */
function sumOf(all: readonly NonNullable<ReturnType<typeof earnedOf>>[]) {
  if (all.length === 0) return null
  return all.reduce((sum, supplier) => ({
    amount: sum.amount + supplier.amount,
    half: Math.hypot(sum.half, supplier.half),
    bids: sum.bids + supplier.bids,
    wins: sum.wins + supplier.wins,
    lost: sum.lost + supplier.lost,
  }))
}

const isProven = ({ faults }: Measured) => !isUnchecked(faults)

/** What a bid earns: that of the supplier in the last days if it is proven, else the mean of those that are. Null: unknown. */
function perBidOf(all: readonly Measured[], kept: Pick<KeptSums, 'armsOf'>) {
  const known = new Map<string, { amount: number; bids: number }>()
  for (const supplier of all) {
    if (!isProven(supplier)) continue
    const earned = earnedOf((mode) => kept.armsOf(supplier.id, mode))
    if (earned !== null && earned.bids > 0) known.set(supplier.id, earned)
  }
  const total = [...known.values()].reduce(
    (sum, { amount, bids }) => ({ amount: sum.amount + amount, bids: sum.bids + bids }),
    { amount: 0, bids: 0 },
  )
  return (id: string): number | null => {
    const { amount, bids } = known.get(id) ?? total
    // bids of a supplier on which OPD loses have nothing at stake
    return bids === 0 ? null : Math.max(0, amount / bids)
  }
}

function supplierOf(
  { id, name, opd, figures, faults }: Measured,
  window: number,
  perBid: number | null,
  earned: Interval | null,
): FunnelSupplier {
  const bids = figures === undefined ? 0 : figures.funnel.decided + figures.funnel.noMacro
  const ofStep = (step: string) => (step === 'macro' ? bids : (figures?.funnel.decided ?? 0))
  return {
    ...{ ssp: id, name, opd: opd?.state ?? null, earned },
    steps: figures === undefined ? [] : funnelCounts(figures),
    faults: faults.map(({ step, text, fix, mail, lost }) => {
      const stopped = (lost * ofStep(step) * day) / window
      return { step, text, fix, mail, bids: stopped, perDay: perBid && stopped * perBid }
    }),
  }
}

const stakeOf = ({ faults }: FunnelSupplier) =>
  faults.reduce((sum, { perDay }) => sum + (perDay ?? 0), 0)

async function funnelOf(deps: FunnelDeps, sees: (account: string | null) => boolean) {
  const nodes = await deps.nodes()
  await Promise.all([deps.kept.read(), deps.today.read()])
  const window = Math.max(...nodes.map((node) => node.window))
  const measured: Measured[] = []
  for (const { id, name, account } of deps.suppliers()) {
    if (!sees(account)) continue
    const figures = summedFigures(nodes, id)
    const opd = deps.opd(id)
    const isActive = opd?.state === 'on' || opd?.state === 'shadow'
    const noticed = isNoticed(figures, (mode) => deps.kept.armsOf(id, mode))
    const faults = figures === undefined || !isActive ? [] : funnelFaults(figures, noticed)
    measured.push({ id, name, opd, figures, faults })
  }
  const perBid = perBidOf(measured, deps.kept)
  const proven = new Map(
    measured
      .filter(isProven)
      .map(({ id }) => [id, earnedOf((mode) => deps.today.armsOf(id, mode))] as const),
  )
  const total = sumOf([...proven.values()].filter((value) => value !== null))
  const suppliers: FunnelSupplier[] = []
  for (const supplier of measured) {
    const earned = proven.get(supplier.id) ?? null
    suppliers.push(supplierOf(supplier, window, perBid(supplier.id), earned && asInterval(earned)))
  }
  suppliers.sort(
    (one, other) => stakeOf(other) - stakeOf(one) || other.faults.length - one.faults.length,
  )
  const stopped = suppliers.flatMap(({ faults }) => faults)
  const time = deps.now()
  const bids = measured.reduce(
    (sum, { id }) =>
      modes.reduce((all, mode) => all + (deps.today.armsOf(id, mode)?.optimised.bids ?? 0), sum),
    0,
  )
  return {
    at: time,
    since: time - (time % (day * 1000)),
    window,
    currency: deps.currency(),
    earned: total && asInterval(total),
    wins: total?.wins ?? 0,
    lostWins: total?.lost ?? 0,
    bids,
    unchecked: measured.filter((supplier) => !isProven(supplier)).map(({ id }) => id),
    perDay: stopped.some(({ perDay }) => perDay === null)
      ? null
      : stopped.reduce((sum, { perDay }) => sum + (perDay ?? 0), 0),
    suppliers,
  } satisfies Funnel
}

/**
 * The text of what OPD earned today, and of what stops the suppliers that the caller sees.
 *
 * @param deps figures of all nodes
 * @param question its `query` may limit the suppliers
 */
export async function funnelJson(
  deps: FunnelDeps,
  { caller, query }: LiveQuestion,
): Promise<string> {
  const { ssp, only } = query
  const funnel = await funnelOf(deps, (account) => canSee(caller, account))
  const suppliers = funnel.suppliers.filter(
    (supplier) =>
      (ssp ?? supplier.ssp) === supplier.ssp && (only === undefined || supplier.faults.length > 0),
  )
  return JSON.stringify({ ...funnel, suppliers })
}

/**
 * The call that says what OPD earned today, and what stops the bids of each supplier.
 *
 * @param ask answers on another thread
 */
export const funnelRoute = (ask: AskLive): Route => ({
  method: 'GET',
  path: '/api/svc/funnel/',
  id: 'funnel',
  tag: 'service',
  summary: 'What OPD earned today, and what stops the bids of each supplier',
  description:
    'Steps and faults are those of the last minutes, over all nodes. `earned` compares the optimized bids of today with the holdout. What is possible besides is the number of bids that stop, multiplied by what a bid earned in the last seven days.',
  role: 'viewer',
  query: funnelQuery,
  answers: { 200: jsonAnswer('Earnings and faults', funnelSchema) },
  problems: [503],
  handler(request, reply) {
    const query = queryOf(funnelQuery, request)
    return sendAnswer(ask, { call: 'funnel', caller: request.caller!, query }, reply)
  },
})
