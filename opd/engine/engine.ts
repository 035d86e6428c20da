/** The engine: binds integrations at configuration, rewrites bid responses, attributes win notices, trains the model. */

import { hkdfSync } from 'node:crypto'
import type { Integration } from '../config.ts'
import type { BidLog, DecisionObserver, DecisionSink, Learners, SharedBidLog } from '../ports.ts'
import { createContextCodec, Nonces } from '../pricing/context.ts'
import { ExposureSampler } from '../pricing/exposures.ts'
import { rewriteInSlices as rewriteBody, unmodified } from '../rewrite/rewrite.ts'
import type { Log } from '../shared/log.ts'
import { rateOf } from '../shared/rates.ts'
import { drained } from '../shared/slices.ts'
import { standalone } from '../standalone/standalone.ts'
import { BoundIntegration, neverPrices } from './bound-integration.ts'
import { DayReductions } from './day-reductions.ts'
import { createDecisionLookup } from './decision-lookup.ts'
import { createFaultLog } from './fault-log.ts'
import { createOutcomes } from './outcomes.ts'
import { EngineStats } from './stats.ts'
import type {
  DecisionRecord,
  Engine,
  EngineConfig,
  EngineSettings,
  LookupResult,
  Pause,
  ResponseToRewrite,
  RewrittenResponse,
  StandaloneEntry,
  StandaloneResult,
} from './types.ts'

interface EngineDeps {
  learners: Learners
  bidLog: BidLog
  observer: DecisionObserver | null
  shared: SharedBidLog | null
  sink: DecisionSink | null
  log: Log
  /** Milliseconds since the epoch. */
  now: () => number
  random: () => number
  /** Decisions that train the model in a second, at most. */
  trainedPerSecond?: number
}

export interface BidweirEngine extends Engine {
  readonly stats: EngineStats
  /** What OPD took off today, for the cap of a day. */
  readonly reductions: DayReductions
  /** The configuration of one supplier; null: unknown supplier. */
  integration(id: string): Integration | null
}

export function createEngine(initial: EngineConfig, deps: EngineDeps): BidweirEngine {
  const { now } = deps
  const stats = new EngineStats()
  const reductions = new DayReductions()
  const fault = createFaultLog(stats.faults, deps.log, now)
  const lookup = createDecisionLookup(deps.bidLog, deps.shared, fault)
  const nonces = new Nonces()
  /** Integrations with a standalone call without `imp`; each is logged once. */
  const warnedOfNoImp = new Set<string>()
  let config: EngineSettings = initial
  const bound = new Map<string, BoundIntegration>()
  let holds: ReadonlySet<string> = new Set()
  let holdsAll = false
  const onHold = (supplier: string) => holdsAll || holds.has(supplier)

  const keyMaterial = (settings: EngineSettings) => {
    const secret = settings.keys[0]?.secret ?? new Uint8Array(32)
    const seeds = Buffer.from(hkdfSync('sha256', secret, '', 'bidweir shares v1', 12))
    return {
      codec: createContextCodec(settings.keys, settings.contextTtl, nonces),
      seed: seeds.readInt32BE(0),
      auctionSalt: seeds.toString('hex', 4),
    }
  }
  const exposures = new ExposureSampler(deps.random, deps.trainedPerSecond)
  const pricingDeps = { ...deps, ...keyMaterial(initial), exposures, onHold, reductions, fault }

  const bind = (integration: Integration) =>
    new BoundIntegration(integration, stats.of(integration.id), pricingDeps)

  function rewriteInSlices(response: ResponseToRewrite): Iterator<Pause, RewrittenResponse> {
    const { supplier, body, request, inactiveSeats } = response
    const target = bound.get(supplier) ?? {
      integration: { id: supplier, opd: null, notices: 'win' as const },
      stats: null,
      handlers: neverPrices,
    }
    const { price, onBid } = target.handlers
    const slices = rewriteBody({
      body,
      request,
      integration: target.integration,
      inactiveSeats,
      rates: config.rates,
      base: config.base,
      price,
      onBid,
      seatsOnly: response.seatsOnly ?? false,
    })
    const next = (): IteratorResult<Pause, RewrittenResponse> => {
      let slice: IteratorResult<Pause, RewrittenResponse>
      try {
        slice = slices.next()
      } catch (error) {
        // An internal error costs the optimisation, never the response. If inactive seats must be removed, the response is
        // unreadable.
        fault('rewrite', error, supplier)
        if (target.stats !== null) target.stats.faults++
        const unreadable = inactiveSeats.size > 0
        slice = { done: true, value: { ...unmodified(body, 'malformed'), unreadable } }
      }
      if (slice.done && slice.value.reason !== null)
        target.stats?.countUnmodified(slice.value.reason)
      return slice
    }
    return { next }
  }

  async function findDecision(
    ...[notice, mayUseLog]: Parameters<Engine['findDecision']>
  ): Promise<LookupResult> {
    const at = now()
    const { state, record } = pricingDeps.codec.decode(notice.svcOpd, notice.bidId, at)
    const late = (decided: DecisionRecord) => decided.at < at - config.attributionWindow
    if (state === 'valid' && record !== null)
      return {
        context: state,
        by: 'context',
        record: await lookup.withFeatures(record),
        ambiguous: [],
        late: late(record),
      }
    const earliest = at - config.contextTtl
    const logged =
      mayUseLog?.(state) === false ? [] : await lookup.latest(notice.bidId, notice.ssp, earliest)
    const found = logged.filter(({ supplier }) => notice.sees?.(supplier) ?? true)
    const [only] = found
    if (only === undefined || found.length > 1) {
      const ambiguous = found.map(({ supplier }) => supplier)
      return { context: state, by: null, record: null, ambiguous, late: false }
    }
    return { context: state, by: 'bid_log', record: only, ambiguous: [], late: late(only) }
  }

  const rate = (currency: string) => rateOf(currency, config.rates, config.base)
  const outcomes = createOutcomes({ ...deps, stats, reductions, rate, fault })

  function warnOfNoImp(ssp: string): void {
    if (warnedOfNoImp.has(ssp)) return
    warnedOfNoImp.add(ssp)
    deps.log.warn({ ssp }, 'a standalone call has bids without imp, their floor is 0; logged once')
  }

  /** An exception in here is a bug. The error that is thrown quotes nothing of the body; the API responds with 500. */
  function priceStandalone(
    supplier: string,
    target: BoundIntegration,
    body: Buffer,
  ): StandaloneResult {
    const internalError = (error: unknown) => {
      fault('standalone', error, supplier)
      return new Error('a standalone call failed')
    }
    function* reported(entries: Iterable<StandaloneEntry>) {
      try {
        yield* entries
      } catch (error) {
        throw internalError(error)
      }
    }
    try {
      const { integration, handlers } = target
      const result = standalone(body, integration, config.rates, config.base, handlers.price)
      if (!result.ok) return result
      if (result.withoutImp) warnOfNoImp(supplier)
      return { ...result, entries: reported(result.entries) }
    } catch (error) {
      throw internalError(error)
    }
  }

  for (const each of initial.integrations) bound.set(each.id, bind(each))
  return {
    stats,
    reductions,
    configure(next) {
      config = next
      Object.assign(pricingDeps, keyMaterial(next))
    },
    setIntegration: (integration) => void bound.set(integration.id, bind(integration)),
    removeIntegration: (supplier) => void bound.delete(supplier),
    integration: (id) => bound.get(id)?.integration ?? null,
    setHolds(suppliers) {
      holds = suppliers
      holdsAll = suppliers.has('*')
    },
    rewrite: (response) => drained(rewriteInSlices(response)),
    rewriteInSlices,
    countUnmodified: (supplier, reason) => bound.get(supplier)?.stats.countUnmodified(reason),
    readsResponses: (supplier) => bound.get(supplier)?.readsResponses ?? false,
    countUnread(supplier) {
      const target = bound.get(supplier)
      target?.stats.countUnmodified(
        target.integration.opd === 'invalid' ? 'invalid_config' : 'disabled',
      )
    },
    priceStandalone(supplier, body) {
      const target = bound.get(supplier)
      if (target === undefined) return { ok: false, status: 404, faults: [] }
      if (!target.readsResponses) return { ok: false, status: 403, faults: [] }
      return priceStandalone(supplier, target, body)
    },
    findDecision,
    explain(svcOpd, bidId) {
      const at = now()
      const { state, record } = pricingDeps.codec.decode(svcOpd, bidId, at)
      const late = record !== null && record.at < at - config.attributionWindow
      return { context: state, record, late }
    },
    rate,
    ...outcomes,
  }
}
