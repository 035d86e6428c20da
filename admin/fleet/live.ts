/**
 * `GET /api/svc/live/`: the figures of the console, over all nodes or of one, with intervals, and the state of each
 * integration. Money is in units of the base currency.
 */
import type { FastifyReply } from 'fastify'
import * as z from 'zod'
import { type Mode, modes } from '../../opd/shared/arms.ts'
import {
  type Interval,
  type KeptTotals,
  keptSpend,
  keptWins,
  uplift,
} from '../../opd/shared/confidence.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { jsonType, listJson, withList } from '../http/long-json.ts'
import { Problem } from '../http/problem.ts'
import { type Caller, canSee, may, roles } from '../http/roles.ts'
import { find } from '../management/access.ts'
import type { ComparedArms } from '../reports/arms.ts'
import {
  added,
  addedCounts,
  latencyOf,
  type ModeFigures,
  type NodeFigures,
  type SupplierFigures,
  type VariantFigures,
} from './figures.ts'
import { healthOf, isKnown, keptLevel, requestCounts } from './health.ts'
import type { KeptSums } from './kept-sums.ts'
import {
  type Kept,
  type LiveIntegration,
  type LiveMode,
  type LiveSnapshot,
  type LiveState,
  liveSchema,
} from './live-schema.ts'

export interface LiveDeps {
  nodes(): Promise<NodeFigures[]>
  /** Of all nodes, over the last days. */
  kept: Pick<KeptSums, 'read' | 'armsOf'>
  suppliers(): readonly { id: string; name: string; account: string | null }[]
  holds(): ReadonlySet<string>
  /** Suppliers for which a guard acts, since none of their money can be checked. */
  unchecked(): ReadonlySet<string>
  /** The base currency. */
  currency(): string
  /**
   * What is configured; null: no such supplier.
   *
   * @param ssp identifier of a supplier
   */
  opd(ssp: string): LiveState | null
  /**
   * The locations whose data center is inactive.
   *
   * @param ssp identifier of a supplier; an unknown one has none
   */
  inactive(ssp: string): readonly string[]
  now(): number
}

const keptOf = (interval: Interval | null, floor: number | undefined): Kept | null =>
  interval === null || floor === undefined
    ? null
    : { ...interval, floor, known: isKnown(interval), level: keptLevel(interval, floor) }

/** Sums of CPM are for a thousand impressions. */
export const units = (cpm: number) => cpm / 1000

/** Wins and spend that the optimized bids would have at the rates of the holdout, minus those that they have. */
function missingOf(optimised: KeptTotals, holdout: KeptTotals) {
  if (holdout.bids === 0) return null
  const share = optimised.bids / holdout.bids
  return {
    wins: holdout.wins * share - optimised.wins,
    spend: units(holdout.spend * share - optimised.spend),
  }
}

type ArmsOf = (mode: Mode) => ComparedArms | null

/** The configured mode first, then other modes with bids. */
const usedModes = (figures: SupplierFigures | undefined, opd: LiveState | null): Mode[] =>
  modes
    .filter((mode) => figures?.modes[mode] !== undefined)
    .sort((one, other) => Number(other === opd?.mode) - Number(one === opd?.mode))

const keptRates = ({ optimised, holdout }: ComparedArms, opd: LiveState | null) => ({
  kept: keptOf(keptWins(optimised, holdout), opd?.minWinRate),
  keptSpend: keptOf(keptSpend(optimised, holdout), opd?.minSpend),
})

function modeOf(
  mode: Mode,
  { bids, wins, guards, alarms, ...counted }: ModeFigures,
  opd: LiveState | null,
  armsOf: ArmsOf,
): LiveMode {
  const arms = armsOf(mode) ?? counted
  const factors = Object.entries(counted.factors)
    .map(([bound, count]) => ({ upTo: Number(bound), bids: count }))
    .sort((one, other) => one.upTo - other.upTo)
    // JSON has no infinity
    .map(({ upTo, bids }) => ({ upTo: Number.isFinite(upTo) ? upTo : null, bids }))
  return {
    ...{ mode, bids, wins, guards, alarms, factors },
    margin: units(counted.margin),
    revenue: units(counted.revenue),
    ...keptRates(arms, opd),
    missing: missingOf(arms.optimised, arms.holdout),
    // Margin per bid of optimized bids minus that of the holdout: CPM for each bid is the amount for 1,000 bids
    uplift: uplift(arms.optimised, arms.holdout),
  }
}

/** Whether there was a notice since the nodes started, or a win in the last days. */
export const isNoticed = (figures: SupplierFigures | undefined, armsOf: ArmsOf): boolean =>
  Object.keys(figures?.notices ?? {}).length > 0 ||
  modes.some((mode) => Object.values(armsOf(mode) ?? {}).some(({ wins }) => wins > 0))

/** The figures of one supplier over some nodes; undefined: none has any. */
export function summedFigures(nodes: readonly NodeFigures[], id: string) {
  let figures: SupplierFigures | undefined
  for (const { suppliers } of nodes)
    if (suppliers[id] !== undefined) figures = added(figures, suppliers[id])
  return figures
}

type LiveSupplier = ReturnType<LiveDeps['suppliers']>[number]

function variantOf({ requests, durations, bids, prices }: VariantFigures) {
  const { sent, failed } = requestCounts(requests)
  return {
    ...{ requests: sent, failed, bids },
    price: bids === 0 ? null : prices / bids,
    ...latencyOf(durations),
  }
}

function variantsOf(figures: SupplierFigures | undefined): Pick<LiveIntegration, 'variants'> {
  const variants = figures?.variants
  if (variants === undefined) return {}
  return { variants: { main: variantOf(variants.main), canary: variantOf(variants.canary) } }
}

interface StateContext {
  opd: LiveState | null
  holds: ReadonlySet<string>
  unchecked: boolean
  inactive: readonly string[]
  noticed: boolean | null
  armsOf: ArmsOf
}

/** What the list of suppliers shows; alerts read its `health`. */
function stateOf(
  { id, name, account }: LiveSupplier,
  figures: SupplierFigures | undefined,
  { opd, holds, unchecked, inactive, noticed, armsOf }: StateContext,
) {
  const [mode] = usedModes(figures, opd)
  const rates = mode && { mode, ...keptRates(armsOf(mode) ?? figures!.modes[mode]!, opd) }
  const measured = opd?.state === 'on' ? rates : undefined
  const held: LiveIntegration['held'] = holds.has('*') ? 'all' : holds.has(id) ? 'own' : 'no'
  const requests = figures?.requests ?? {}
  const counts = requestCounts(requests)
  return {
    ssp: id,
    ...{ name, account, opd, held, requests },
    modes: rates === undefined ? [] : [rates],
    health: healthOf(figures, {
      opd: opd?.state ?? null,
      held: held !== 'no',
      unchecked,
      kept: measured?.kept?.level ?? 'none',
      keptSpend: measured?.keptSpend?.level ?? 'none',
      inactive,
      noticed,
    }),
    ...counts,
    rate: figures?.rate ?? 0,
    // a supplier that refuses each connection at once is not fast
    ...latencyOf(counts.failed === counts.sent ? {} : (figures?.durations ?? {})),
  }
}

/** A supplier beside its figures, if any node has some, of the nodes that are counted. */
export interface SupplierState {
  shown: ReturnType<typeof stateOf>
  figures: SupplierFigures | undefined
  armsOf: ArmsOf
}

/** All figures of one supplier. */
function integrationOf({ shown, figures, armsOf }: SupplierState): LiveIntegration {
  return {
    ...shown,
    modes: usedModes(figures, shown.opd).map((mode) =>
      modeOf(mode, figures!.modes[mode]!, shown.opd, armsOf),
    ),
    left: figures?.left ?? {},
    notices: figures?.notices ?? {},
    endpoints: figures?.endpoints ?? [],
    ...variantsOf(figures),
    qps: figures?.qps ?? null,
  }
}

/** Seconds without a bid request after which a node has no traffic. */
const longIdle = 60

/** That no bid request comes to the node, though others of its location have them. */
function idleProblem({ node, location, idle }: NodeFigures, all: readonly NodeFigures[]) {
  const busy = (other: NodeFigures) =>
    other.node !== node &&
    other.location === location &&
    other.idle !== null &&
    other.idle < longIdle
  if (idle === null || idle < longIdle || !all.some(busy)) return []
  const text = `no bid request has come for ${Math.floor(idle / 60)} min, and other nodes have them: the load balancer does not use the node`
  return [{ rule: 'no_traffic', level: 'warn' as const, text }]
}

/** What is wrong with a node, as it says itself and as the others see it. */
export const nodeProblemsOf = (node: NodeFigures, all: readonly NodeFigures[]) => [
  ...node.problems,
  ...idleProblem(node, all),
]

/** One supplier after the other. `all`: the sums of all nodes, and not those of one. */
export function* statesOf(
  deps: LiveDeps,
  counted: readonly NodeFigures[],
  all: boolean,
  among: (supplier: LiveSupplier) => boolean,
): Generator<SupplierState> {
  const [holds, unchecked] = [deps.holds(), deps.unchecked()]
  const locations = new Set(counted.map(({ location }) => location))
  for (const supplier of deps.suppliers()) {
    if (!among(supplier)) continue
    const { id } = supplier
    const figures = summedFigures(counted, id)
    const armsOf: ArmsOf = (mode) => (all ? deps.kept.armsOf(id, mode) : null)
    const shown = stateOf(supplier, figures, {
      opd: deps.opd(id),
      holds,
      unchecked: unchecked.has(id),
      inactive: deps.inactive(id).filter((location) => locations.has(location)),
      // notices may come to any node, so one node alone cannot say that there are none
      noticed: all ? isNoticed(figures, armsOf) : null,
      armsOf,
    })
    yield { shown, figures, armsOf }
  }
}

interface LiveScope {
  /** The id of a node; undefined: all nodes. */
  node?: string | undefined
  /** The id of a supplier; undefined: all that the caller may see. */
  ssp?: string | undefined
}

/** The nodes, and those of them that count. Null: there is no such node. */
export async function nodesOf(deps: LiveDeps, only: string | undefined) {
  const all = await deps.nodes()
  const counted = only === undefined ? all : all.filter(({ node }) => node === only)
  // the sums of the last days are those of all nodes
  if (only === undefined) await deps.kept.read()
  return counted.length === 0 ? null : { all, counted }
}

/** Only the caller's suppliers; account `*` sees all. Null: there is no such node. */
async function liveParts(deps: LiveDeps, caller: Caller, { node, ssp }: LiveScope) {
  const nodes = await nodesOf(deps, node)
  if (nodes === null) return null
  const among = ({ id, account }: LiveSupplier) =>
    (ssp === undefined || id === ssp) && canSee(caller, account)
  const integrations = statesOf(deps, nodes.counted, node === undefined, among).map(integrationOf)
  return { head: headOf(deps, caller, nodes, node), integrations }
}

/** What an answer says besides its integrations. */
export function headOf(
  deps: LiveDeps,
  caller: Caller,
  { all, counted }: Record<'all' | 'counted', readonly NodeFigures[]>,
  only: string | undefined,
): Omit<LiveSnapshot, 'integrations'> {
  const time = deps.now()
  const held = deps.holds()
  const { subject, account } = caller
  const role = roles.findLast((role) => may(caller.roles, role)) ?? null
  return {
    at: time,
    scope: only === undefined ? 'all nodes' : 'one node',
    node: all[0]!.node,
    nodes: all.map((node) => ({
      node: node.node,
      location: node.location,
      version: node.version,
      window: node.window,
      problems: nodeProblemsOf(node, all),
      started: new Date(node.started).toISOString(),
      age: Math.max(0, (time - node.at) / 1000),
    })),
    currency: deps.currency(),
    caller: { name: subject, account, role },
    heldAll: held.has('*'),
    unplaced:
      account === '*'
        ? counted.reduce<Record<string, number>>((sum, node) => addedCounts(sum, node.unplaced), {})
        : {},
  }
}

const liveQuery = z.strictObject({
  node: z.string().optional().describe('Only this node; by default the sums of all nodes'),
  ssp: z.string().optional().describe('Only this supplier'),
})

/** A call of the console, which is answered on a thread of its own. */
export interface LiveQuestion {
  call: 'live' | 'list' | 'funnel'
  caller: Caller
  /** As the call was sent. */
  query: {
    node?: string | undefined
    ssp?: string | undefined
    since?: string | undefined
    only?: 'faults' | undefined
  }
}

/** JSON; empty: there is no such node. */
export type AskLive = (question: LiveQuestion) => Promise<Uint8Array>

/** Sends what the thread answers. */
export async function sendAnswer(ask: AskLive, question: LiveQuestion, reply: FastifyReply) {
  const bytes = await ask(question)
  if (bytes.length === 0) throw new Problem('unknown_node')
  return reply.type(jsonType).send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
}

/**
 * The text of all figures.
 *
 * @param deps figures of all nodes
 * @param question its `query` may limit nodes and suppliers
 * @returns null: there is no such node
 */
export async function liveJson(deps: LiveDeps, { caller, query }: LiveQuestion) {
  const parts = await liveParts(deps, caller, query)
  return parts && withList(parts.head, 'integrations', await listJson(parts.integrations))
}

/**
 * The call of the figures of the console.
 *
 * @param deps for all suppliers
 * @param ask answers on another thread
 */
export const liveRoute = (deps: Pick<LiveDeps, 'suppliers'>, ask: AskLive): Route => ({
  method: 'GET',
  path: '/api/svc/live/',
  id: 'live',
  tag: 'service',
  summary: 'The figures of the console, summed over all nodes',
  role: 'viewer',
  query: liveQuery,
  answers: { 200: jsonAnswer('Figures by integration', liveSchema) },
  problems: [404, 503],
  async handler(request, reply) {
    const query = queryOf(liveQuery, request)
    if (query.ssp !== undefined) find(deps, request, query.ssp)
    return sendAnswer(ask, { call: 'live', caller: request.caller!, query }, reply)
  },
})
