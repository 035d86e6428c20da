/** Facts and names that consecutive bids of one integration share. They are made once for bids with equal features. */
import type { BidFacts } from '../learner.ts'
import type { BidFeatures, EligibleBid } from '../shared/reasons.ts'
import { maxDomainBytes, maxPublisherBytes, maxSeatBytes, truncateWithHash } from './pseudonyms.ts'

/** All facts have the same fields, absent ones included, so that V8 reads objects of one shape. */
const factsOf = (supplier: string, mode: BidFacts['mode'], features: BidFeatures): BidFacts => ({
  supplier,
  mode,
  inBa: 0,
  floor: 0,
  publisher: features.publisher,
  domain: features.domain,
  placement: features.placement,
  country: features.country,
  device: features.device,
  format: features.format,
  size: features.size,
  dsp: features.dsp,
  seat: features.seat,
  deal: features.deal,
  auction: features.auction,
})

export class SharedTerms {
  /** `inBa` and `floor` are set for each bid. */
  facts: BidFacts
  /** Truncated. */
  publisher = ''
  domain = ''
  seat: string | undefined = undefined
  /** The learner's key of the auction: salt and id. */
  key = ''
  private features: BidFeatures | null = null
  private auction = ''
  private salt: string | null = null
  private readonly supplier: string
  private readonly mode: BidFacts['mode']

  constructor(supplier: string, mode: BidFacts['mode']) {
    this.supplier = supplier
    this.mode = mode
    this.facts = factsOf(supplier, mode, {})
  }

  loadBid({ features, auction }: EligibleBid, salt: string): void {
    if (this.features !== features) {
      const { supplier, mode } = this
      this.features = features
      this.facts = factsOf(supplier, mode, features)
      this.publisher = truncateWithHash(features.publisher, maxPublisherBytes)
      this.domain = truncateWithHash(features.domain, maxDomainBytes)
      this.seat = truncateWithHash(features.seat, maxSeatBytes) || undefined
    }
    if (this.auction === auction && this.salt === salt) return
    this.auction = auction
    this.salt = salt
    this.key = salt + auction
  }
}
