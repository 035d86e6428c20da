/**
 * The hashes and keys of the latest bid. The bids of a response have equal features, and hashing them again would take a third
 * of a decision.
 */

import type { BidFacts } from '../../learner-types.ts'
import { keyCount } from '../curve/priors.ts'
import { featureBytes, keysOf, quarterOf, setFloor, writeFeatures } from '../features.ts'

const isAlike = (one: BidFacts, other: BidFacts) =>
  one.supplier === other.supplier &&
  one.publisher === other.publisher &&
  one.placement === other.placement &&
  one.country === other.country &&
  one.device === other.device &&
  one.format === other.format &&
  one.size === other.size &&
  one.dsp === other.dsp &&
  one.seat === other.seat &&
  one.deal === other.deal &&
  one.domain === other.domain

export class FeatureCache {
  readonly keys = new Uint32Array(keyCount)
  private readonly bytes = new Uint8Array(featureBytes)
  private facts: BidFacts | null = null
  private quarter = -1

  /** Returns new bytes with the hashes of a bid, and sets `keys` to its keys. */
  loadFeatures(facts: BidFacts, now: number): Uint8Array {
    const { bytes } = this
    const quarter = quarterOf(now)
    const isKnown = this.facts !== null && isAlike(this.facts, facts)
    if (!isKnown) {
      writeFeatures(facts, bytes)
      // The caller may change its object for the next bid.
      this.facts = { ...facts }
    } else setFloor(bytes, facts)
    if (!isKnown || quarter !== this.quarter) {
      this.quarter = quarter
      keysOf(bytes, now, this.keys)
    }
    return bytes.slice()
  }
}
