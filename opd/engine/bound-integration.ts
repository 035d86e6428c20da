/**
 * One integration with its counters and its price function. The function is made for the first bid: a reload that changes
 * 3,000 suppliers would otherwise make 3 MB of objects, which the garbage collector copies in one turn of the event loop.
 */
import type { Integration } from '../config.ts'
import { createPricing, type PricingDeps } from '../pricing/pricing.ts'
import type { BidReason, PriceBid } from '../pricing/types.ts'
import type { ModeStats, SupplierStats } from './stats.ts'

interface BidHandlers {
  price: PriceBid
  onBid: (reason: BidReason) => void
}

/** Of a supplier without OPD. */
export const neverPrices: BidHandlers = {
  price: ({ priceText }) => ({
    priceText: null,
    inText: priceText,
    outText: priceText,
    context: '',
    mode: '',
  }),
  onBid: () => {},
}

export class BoundIntegration {
  readonly integration: Integration
  readonly stats: SupplierStats
  /** null: OPD is off. */
  private readonly mode: ModeStats | null
  private readonly deps: PricingDeps
  private made: BidHandlers | null = null

  constructor(integration: Integration, stats: SupplierStats, deps: PricingDeps) {
    const { opd } = integration
    this.integration = integration
    this.stats = stats
    this.deps = deps
    this.mode =
      opd === null || opd === 'invalid' || opd.enabled === false ? null : stats.modes[opd.mode]
    if (this.mode !== null) this.mode.configured = true
  }

  get readsResponses(): boolean {
    return this.mode !== null
  }

  get handlers(): BidHandlers {
    this.made ??= this.make()
    return this.made
  }

  private make(): BidHandlers {
    const { mode } = this
    if (mode === null) return neverPrices
    return {
      price: createPricing(this.integration, this.deps, mode),
      onBid: (reason) => mode.countUnmodified(reason),
    }
  }
}
