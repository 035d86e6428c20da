/** The engine: binds integrations at configuration, rewrites bid responses, attributes win notices, trains the model. */

import { hkdfSync } from 'node:crypto'
import { priceAgentBids } from '../agent/agent.ts'
import type { Log } from '../base/log.ts'
import type { Integration } from '../config.ts'
import type { BidLog, DecisionObserver, DecisionSink, Learners, SharedBidLog } from '../ports.ts'
import { createContextCodec, Nonces } from '../pricing/context.ts'
import { DayReductions } from '../pricing/day-reductions.ts'
import { ExposureSampler, Pricing } from '../pricing/pricing.ts'
import { EngineStats, type ModeStats, type SupplierStats } from '../pricing/stats.ts'
import { hasSeat } from '../protobuf/response.ts'
import { rewriteInSlices as rewriteBody, unmodified } from '../rewrite/rewrite.ts'
import { createFaultLog } from '../shared/fault-log.ts'
import { rateOf } from '../shared/rates.ts'
import type { BidReason, PriceBid } from '../shared/reasons.ts'
import { standalone } from '../standalone/standalone.ts'
import type {
  Engine,
  EngineConfig,
  EngineSettings,
  Pause,
  ResponseToRewrite,
  RewrittenResponse,
  StandaloneResult,
} from '../types.ts'
import { createAttribution } from './attribution.ts'
import { createOutcomes } from './outcomes.ts'

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

interface BidHandlers {
  price: PriceBid | null
  onBid?: (reason: BidReason) => void
}

/** One integration with its counters. */
interface Bound {
  readonly integration: Integration
  readonly stats: SupplierStats
  /** null: OPD is off. */
  readonly mode: ModeStats | null
  /**
   * Made for the first bid: a reload that changes 3,000 suppliers would otherwise make 3 MB of objects, which the garbage
   * collector copies in one turn of the event loop.
   */
  handlers: BidHandlers | null
}

const noHandlers: BidHandlers = { price: null }

/** A response without this key contains no bid. Most bids have it near their beginning, so the search is short. */
const priceKey = Buffer.from('"price"')

export function createEngine(initial: EngineConfig, deps: EngineDeps): BidweirEngine {
  const { now } = deps
  const stats = new EngineStats()
  const reductions = new DayReductions()
  const fault = createFaultLog(stats.faults, deps.log, now)
  const nonces = new Nonces()
  /** Integrations with a standalone call without `imp`; each is logged once. */
  const warnedOfNoImp = new Set<string>()
  let config: EngineSettings = initial
  const bound = new Map<string, Bound>()
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

  function bind(integration: Integration): void {
    const { id, opd } = integration
    const of = stats.supplierStats(id)
    const isOn = opd !== null && opd !== 'invalid' && opd.enabled !== false
    const mode = isOn ? of.modes[opd.mode] : null
    if (mode !== null) mode.configured = true
    bound.set(id, { integration, stats: of, mode, handlers: null })
  }

  function handlersOf(target: Bound): BidHandlers {
    const { integration, mode } = target
    if (mode === null) return noHandlers
    target.handlers ??= {
      price: new Pricing(integration, pricingDeps, mode).price,
      onBid: (reason) => mode.countUnmodified(reason),
    }
    return target.handlers
  }

  function rewriteInSlices(response: ResponseToRewrite): Iterator<Pause, RewrittenResponse> {
    const { supplier, body, format, requestFormat, request, inactiveSeats, memory } = response
    const target = bound.get(supplier)
    const { price, onBid } = target === undefined ? noHandlers : handlersOf(target)
    const slices = rewriteBody({
      body,
      format,
      request,
      requestFormat,
      opd: target?.integration.opd ?? null,
      inactiveSeats,
      rates: config.rates,
      base: config.base,
      price,
      onBid,
      memory,
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
        slices.return()
        if (target !== undefined) target.stats.faults++
        const unreadable = inactiveSeats.size > 0
        slice = { done: true, value: { ...unmodified(body, 'malformed'), unreadable } }
      }
      if (slice.done && slice.value.reason !== null && target !== undefined) {
        const { reason } = slice.value
        target.stats.countUnmodified(reason)
        const mayHaveBid = format === 'protobuf' ? hasSeat(body) : body.includes(priceKey)
        if (reason === 'no_macro' && mayHaveBid) target.stats.bidsWithoutMacro++
      }
      return slice
    }
    return { next, return: () => slices.return() }
  }

  const rate = (currency: string) => rateOf(currency, config.rates, config.base)
  const attribution = createAttribution({
    ...deps,
    fault,
    codec: () => pricingDeps.codec,
    settings: () => config,
  })
  const outcomes = createOutcomes({ ...deps, stats, rate, fault })

  function warnOfNoImp(ssp: string): void {
    if (warnedOfNoImp.has(ssp)) return
    warnedOfNoImp.add(ssp)
    deps.log.warn({ ssp }, 'a standalone call has bids without imp, their floor is 0; logged once')
  }

  const internalError = (place: 'standalone' | 'agent', error: unknown, supplier: string) => {
    fault(place, error, supplier)
    return new Error(`the pricing of a call failed: ${place}`)
  }
  function* reported<T>(bids: Iterable<T>, place: 'standalone' | 'agent', supplier: string) {
    try {
      yield* bids
    } catch (error) {
      throw internalError(place, error, supplier)
    }
  }

  /** An exception in this function is a bug. The error that it throws quotes nothing of the body; the API responds with 500. */
  function priceStandalone(
    supplier: string,
    opd: Integration['opd'],
    price: PriceBid,
    body: Buffer,
  ): StandaloneResult {
    try {
      const result = standalone(body, opd, config.rates, config.base, price)
      if (!result.ok) return result
      if (result.withoutImp) warnOfNoImp(supplier)
      return { ...result, entries: reported(result.entries, 'standalone', supplier) }
    } catch (error) {
      throw internalError('standalone', error, supplier)
    }
  }

  for (const each of initial.integrations) bind(each)
  return {
    stats,
    reductions,
    configure(next) {
      config = next
      Object.assign(pricingDeps, keyMaterial(next))
    },
    setIntegration: bind,
    removeIntegration: (supplier) => void bound.delete(supplier),
    integration: (id) => bound.get(id)?.integration ?? null,
    setHolds(suppliers) {
      holds = suppliers
      holdsAll = suppliers.has('*')
    },
    rewriteInSlices,
    countUnmodified: (supplier, reason) => bound.get(supplier)?.stats.countUnmodified(reason),
    readsResponses: (supplier) => (bound.get(supplier)?.mode ?? null) !== null,
    countUnread(supplier) {
      const target = bound.get(supplier)
      target?.stats.countUnmodified(
        target.integration.opd === 'invalid' ? 'invalid_config' : 'disabled',
      )
    },
    priceStandalone(supplier, body) {
      const target = bound.get(supplier)
      if (target === undefined) return { ok: false, status: 404, faults: [] }
      const { price } = handlersOf(target)
      if (price === null) return { ok: false, status: 403, faults: [] }
      return priceStandalone(supplier, target.integration.opd, price, body)
    },
    priceAgentCall(supplier, call) {
      const target = bound.get(supplier)
      if (target === undefined) return null
      const { price, onBid } = handlersOf(target)
      const { opd } = target.integration
      if (price === null || onBid === undefined || opd === null || opd === 'invalid') return null
      const { rates, base } = config
      const bids = priceAgentBids(call, { opd, rates, base, price, onBid })
      const { learners } = deps
      const modelVersion = `${opd.mode}-${learners.epoch(opd.mode)}-${learners.version(opd.mode)}`
      return { bids: reported(bids, 'agent', supplier), modelVersion }
    },
    rate,
    ...attribution,
    ...outcomes,
  }
}
