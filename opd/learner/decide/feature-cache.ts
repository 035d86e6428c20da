/**
 * The hashes and the keys of the bid that was described last. The bids of a response have equal features, and hashing
 * their texts again would take a third of a decision.
 */
import { hashText } from '../../shared/hash.ts'
import { keyCount } from '../curve/priors.ts'
import { describe, featureBytes, keysOf, quarterOf, setFloor } from '../features.ts'
import type { BidFacts } from '../types.ts'

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

  /** Fresh bytes with the hashes of a bid; `keys` are those of the bid. */
  load(facts: BidFacts, now: number): Uint8Array {
    const { bytes } = this
    const quarter = quarterOf(now)
    const isKnown = this.facts !== null && isAlike(this.facts, facts)
    if (!isKnown) {
      describe(facts, bytes)
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

/** Of the auctions, with theta raised. */
const raisedShare = 0.2

/** What is drawn by the key of an auction: the bids of a response share it. */
export class AuctionDraws {
  /** Uniform in [0, 1). */
  holdout = 0
  /** Whether theta is raised: one of five auctions. */
  raised = false
  private key: string | null = null

  load(key: string): void {
    if (this.key === key) return
    this.key = key
    this.holdout = hashText(key, 0x27d4eb2f) / 2 ** 32
    this.raised = hashText(key, 0x165667b1) < raisedShare * 2 ** 32
  }
}
