/** The engine: binds integrations at configuration, rewrites bid responses, attributes win notices, trains the model. */

import { hkdfSync } from 'node:crypto'
import { priceAgentBids } from '../agent/agent.ts'
import type { AgentCall } from '../agent/call.ts'
import { getOrAdd } from '../base/get-or-add.ts'
import type { Log } from '../base/log.ts'
import type { Integration } from '../config.ts'
import type { BidLog, DecisionObserver, DecisionSink, Learners, SharedBidLog } from '../ports.ts'
import { createContextCodec, Nonces } from '../pricing/context.ts'
import { DayReductions } from '../pricing/day-reductions.ts'
import { Combinations } from '../pricing/facets.ts'
import { ExposureSampler, Pricing, SharedTerms } from '../pricing/pricing.ts'
import { EngineStats, type ModeStats, type SupplierStats } from '../pricing/stats.ts'
import { hasSeat } from '../protobuf/response.ts'
import { rewriteInSlices as rewriteBody, unmodified } from '../rewrite/rewrite.ts'
import { createFaultLog, type ReportFault } from '../shared/fault-log.ts'
import { rateOf } from '../shared/rates.ts'
import type { BidReason, PriceBid, ResponseReason } from '../shared/reasons.ts'
import { standalone } from '../standalone/standalone.ts'
import type {
  Engine,
  EngineConfig,
  EngineSettings,
  Pause,
  ResponseToRewrite,
  RewrittenResponse,
  StandaloneResult,
  SupplierResponses,
} from '../types.ts'
import { createAttribution, createOutcomes } from './notices.ts'

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
  /**
   * The configuration of one supplier; null: unknown supplier.
   *
   * @param id as the configuration has it, or any other text
   */
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

/** The integrations, each with its counters and the price of its bids. */
class Integrations {
  settings: EngineSettings
  /** The codec follows the keys of the settings. */
  readonly pricingDeps: ConstructorParameters<typeof Pricing>[1]
  private readonly stats: EngineStats
  private readonly responses = new Map<string, Responses>()
  private readonly fault: ReportFault
  private readonly nonces = new Nonces()
  private holds: ReadonlySet<string> = new Set()
  private holdsAll = false
  private unchecked: ReadonlySet<string> = new Set()

  constructor(
    initial: EngineConfig,
    deps: EngineDeps,
    stats: EngineStats,
    reductions: DayReductions,
    fault: ReportFault,
  ) {
    this.settings = initial
    this.stats = stats
    this.fault = fault
    this.pricingDeps = {
      ...deps,
      ...this.keyMaterial(initial),
      exposures: new ExposureSampler(deps.random, deps.trainedPerSecond),
      terms: new SharedTerms(),
      combinations: new Combinations(),
      // Most often there are none, and no look-up is needed.
      onHold: (supplier) => this.holdsAll || (this.holds.size > 0 && this.holds.has(supplier)),
      isUnchecked: (supplier) => this.unchecked.size > 0 && this.unchecked.has(supplier),
      reductions,
      fault,
    }
    for (const integration of initial.integrations) this.bind(integration)
  }

  configure(settings: EngineSettings): void {
    this.settings = settings
    Object.assign(this.pricingDeps, this.keyMaterial(settings))
  }

  setHolds(suppliers: ReadonlySet<string>): void {
    this.holds = suppliers
    this.holdsAll = suppliers.has('*')
  }

  setUnchecked(suppliers: ReadonlySet<string>): void {
    this.unchecked = suppliers
  }

  /** Adds or replaces an integration. */
  bind(integration: Integration): void {
    const { id, opd } = integration
    const stats = this.stats.supplierStats(id)
    const isOn = opd !== null && opd !== 'invalid' && opd.enabled !== false
    const mode = isOn ? stats.modes[opd.mode] : null
    if (mode !== null) mode.configured = true
    this.responsesOf(id).bound = { integration, stats, mode, handlers: null }
  }

  remove(supplier: string): void {
    const responses = this.responses.get(supplier)
    if (responses !== undefined) responses.bound = null
  }

  responsesOf(supplier: string): Responses {
    return getOrAdd(this.responses, supplier, () => new Responses(supplier, this, this.fault))
  }

  /** null: the supplier has no integration. */
  boundOf(supplier: string): Bound | null {
    return this.responses.get(supplier)?.bound ?? null
  }

  handlersOf(target: Bound): BidHandlers {
    target.handlers ??= this.newHandlers(target)
    return target.handlers
  }

  /** Apart from the function that each bid calls: what its closure holds would be made anew with each call, in memory for long lives. */
  private newHandlers({ integration, mode }: Bound): BidHandlers {
    if (mode === null) return noHandlers
    const { price } = new Pricing(integration, this.pricingDeps, mode)
    return { price, onBid: (reason) => mode.countUnmodified(reason) }
  }

  private keyMaterial(settings: EngineSettings) {
    const secret = settings.keys[0]?.secret ?? new Uint8Array(32)
    const seeds = Buffer.from(hkdfSync('sha256', secret, '', 'bidweir shares v1', 12))
    return {
      codec: createContextCodec(settings.keys, settings.contextTtl, this.nonces),
      seed: seeds.readInt32BE(0),
      auctionSalt: seeds.toString('hex', 4),
    }
  }
}

/** The responses of one supplier. */
class Responses implements SupplierResponses {
  reads = false
  private target: Bound | null = null
  private readonly supplier: string
  private readonly integrations: Integrations
  private readonly fault: ReportFault

  constructor(supplier: string, integrations: Integrations, fault: ReportFault) {
    this.supplier = supplier
    this.integrations = integrations
    this.fault = fault
  }

  /** null: the supplier has no integration. */
  get bound(): Bound | null {
    return this.target
  }

  set bound(target: Bound | null) {
    this.target = target
    this.reads = target !== null && target.mode !== null
  }

  rewriteInSlices(response: ResponseToRewrite): Iterator<Pause, RewrittenResponse> {
    const { integrations, target, fault } = this
    const { rates, base } = integrations.settings
    const { body, format, requestFormat, request, inactiveSeats, memory } = response
    const { price, onBid } = target === null ? noHandlers : integrations.handlersOf(target)
    const slices = rewriteBody({
      body,
      format,
      request,
      requestFormat,
      opd: target?.integration.opd ?? null,
      inactiveSeats,
      rates,
      base,
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
        fault('rewrite', error, this.supplier)
        slices.return()
        if (target !== null) target.stats.faults++
        const unreadable = inactiveSeats.size > 0
        slice = { done: true, value: { ...unmodified(body, 'malformed'), unreadable } }
      }
      if (slice.done && slice.value.reason !== null && target !== null) {
        const { reason } = slice.value
        target.stats.countUnmodified(reason)
        const mayHaveBid = format === 'protobuf' ? hasSeat(body) : body.includes(priceKey)
        if (reason === 'no_macro' && mayHaveBid) target.stats.bidsWithoutMacro++
      }
      return slice
    }
    return { next, return: () => slices.return() }
  }

  countUnmodified(reason: ResponseReason): void {
    this.target?.stats.countUnmodified(reason)
  }

  countUnread(): void {
    const isInvalid = this.target?.integration.opd === 'invalid'
    this.countUnmodified(isInvalid ? 'invalid_config' : 'disabled')
  }
}

/** Prices the bids of standalone and agent calls. An exception in them is a bug: it is logged with the place. */
class Calls {
  private readonly integrations: Integrations
  private readonly deps: EngineDeps
  private readonly fault: ReportFault
  /** Integrations with a standalone call without `imp`; each is logged once. */
  private readonly warnedOfNoImp = new Set<string>()

  constructor(integrations: Integrations, deps: EngineDeps, fault: ReportFault) {
    this.integrations = integrations
    this.deps = deps
    this.fault = fault
  }

  /** The error that it throws quotes nothing of the body; the API responds with 500. */
  priceStandalone(supplier: string, body: Buffer): StandaloneResult {
    const { integrations } = this
    const target = integrations.boundOf(supplier)
    if (target === null) return { ok: false, status: 404, faults: [] }
    const { price } = integrations.handlersOf(target)
    if (price === null) return { ok: false, status: 403, faults: [] }
    const { rates, base } = integrations.settings
    try {
      const result = standalone(body, target.integration.opd, rates, base, price)
      if (!result.ok) return result
      if (result.withoutImp) this.warnOfNoImp(supplier)
      return { ...result, entries: this.reported(result.entries, 'standalone', supplier) }
    } catch (error) {
      throw this.internalError('standalone', error, supplier)
    }
  }

  priceAgentCall(supplier: string, call: AgentCall): ReturnType<Engine['priceAgentCall']> {
    const { integrations } = this
    const target = integrations.boundOf(supplier)
    if (target === null) return null
    const { price, onBid } = integrations.handlersOf(target)
    const { opd } = target.integration
    if (price === null || onBid === undefined || opd === null || opd === 'invalid') return null
    const { rates, base } = integrations.settings
    const bids = priceAgentBids(call, { opd, rates, base, price, onBid })
    const { learners } = this.deps
    const modelVersion = `${opd.mode}-${learners.epoch(opd.mode)}-${learners.version(opd.mode)}`
    return { bids: this.reported(bids, 'agent', supplier), modelVersion }
  }

  private warnOfNoImp(ssp: string): void {
    if (this.warnedOfNoImp.has(ssp)) return
    this.warnedOfNoImp.add(ssp)
    const text = 'a standalone call has bids without imp, their floor is 0; logged once'
    this.deps.log.warn({ ssp }, text)
  }

  private *reported<T>(bids: Iterable<T>, place: 'standalone' | 'agent', supplier: string) {
    try {
      yield* bids
    } catch (error) {
      throw this.internalError(place, error, supplier)
    }
  }

  private internalError(place: 'standalone' | 'agent', error: unknown, supplier: string): Error {
    this.fault(place, error, supplier)
    return new Error(`the pricing of a call failed: ${place}`)
  }
}

/**
 * The price engine. It has no timers, so nothing closes it.
 *
 * @param initial the settings, and the integrations it has at first
 * @param deps `now`: milliseconds since the epoch, the same on all nodes; `shared`: null without a shared bid log
 * @throws if a context key is invalid
 */
export function createEngine(initial: EngineConfig, deps: EngineDeps): BidweirEngine {
  const stats = new EngineStats()
  const reductions = new DayReductions()
  const fault = createFaultLog(stats.faults, deps.log, deps.now)
  const integrations = new Integrations(initial, deps, stats, reductions, fault)
  const calls = new Calls(integrations, deps, fault)
  const settings = () => integrations.settings
  const rate = (currency: string) => rateOf(currency, settings().rates, settings().base)
  const codec = () => integrations.pricingDeps.codec
  return {
    stats,
    reductions,
    configure: (next) => integrations.configure(next),
    setIntegration: (integration) => integrations.bind(integration),
    removeIntegration: (supplier) => integrations.remove(supplier),
    integration: (id) => integrations.boundOf(id)?.integration ?? null,
    setHolds: (suppliers) => integrations.setHolds(suppliers),
    setUnchecked: (suppliers) => integrations.setUnchecked(suppliers),
    responsesOf: (supplier) => integrations.responsesOf(supplier),
    priceStandalone: (supplier, body) => calls.priceStandalone(supplier, body),
    priceAgentCall: (supplier, call) => calls.priceAgentCall(supplier, call),
    rate,
    ...createAttribution({ ...deps, fault, codec, settings }),
    ...createOutcomes({ ...deps, stats, rate, fault }),
  }
}
