/**
 * The allotment of a supplier at this node's location (CONTRACT 3). Where nodes share it, each leases tokens from one
 * shared bucket by its demand, so that the split of the load does not matter. While the shared bucket cannot be
 * reached, each node has its last share of the demand.
 */

import { TokenBucket } from '../../opd/base/token-bucket.ts'
import {
  demandMemory,
  type SharedTokens,
  type TokenGrant,
  type TokenRequest,
} from '../../opd/ports.ts'

/** The state of a supplier at this node's location, from the directory. */
export interface Allotment {
  active: boolean
  /** Queries per second of the whole location; null: no limit. */
  clientQps: number | null
}

export interface Bucket {
  /**
   * Whether a request is admitted.
   *
   * @param now milliseconds of a monotonic clock, the same at each call
   */
  takeToken(now: number): boolean
  /** Returns the token of a request that was not sent. */
  giveBack(): void
}

const depthOf = (perSecond: number) => (perSecond === 0 ? 0 : Math.max(2, perSecond / 10))

/**
 * A token bucket of max(2, 0.1 s of the allotment), of this node alone.
 *
 * @param perSecond requests a second, 0 or more
 * @param now milliseconds of a monotonic clock
 */
export const bucketOf = (perSecond: number, now: number) =>
  new TokenBucket(depthOf(perSecond), perSecond, now)

/** Milliseconds between two leases; between two of a bucket without requests; after which the shared bucket counts as lost. */
const leaseEvery = 50
const refreshEvery = 5000
const responseTimeout = 200
/**
 * A node leases this multiple of the tokens that it needs until the next lease, plus `extra` (but at most `extraSeconds` of
 * the allotment), because requests come unevenly.
 */
const headroom = 1.5
const extra = 3
const extraSeconds = 0.01
/** Seconds of the allotment, at least one request, that a node without tokens admits. The next lease pays for them. */
const credit = 0.02
/** With fewer requests of all nodes than this, the split of the demand is not known. */
const least = 0.5

export class LeasedBucket implements Bucket {
  /** Below 0: requests admitted in advance. */
  private tokens = 0
  private arrived = 0
  private askedAt = Number.NEGATIVE_INFINITY
  /** Requests at this node; older ones count less. */
  private ownDemand = 0
  private share: number
  /** This node's share of the allotment while the shared bucket is lost; null: it is not. */
  private alone: TokenBucket | null = null
  private readonly supplier: string
  private readonly perSecond: number

  /** `share`: of the allotment, until the demand of the nodes is known. */
  constructor(supplier: string, perSecond: number, share: number) {
    this.supplier = supplier
    this.perSecond = perSecond
    this.share = share
  }

  /** Requests per second that this node admits by itself. */
  get clientQps(): number {
    return this.perSecond * this.share
  }

  takeToken(now: number): boolean {
    this.arrived++
    if (this.alone !== null) return this.alone.takeToken(now)
    if (this.perSecond === 0) return false
    if (this.tokens < 1 - Math.max(1, this.clientQps * credit)) return false
    this.tokens -= 1
    return true
  }

  giveBack(): void {
    if (this.alone === null) this.tokens += 1
    else this.alone.giveBack()
  }

  /** null: there is nothing to ask for, or to give back. */
  request(now: number): TokenRequest | null {
    const { arrived, tokens, perSecond } = this
    const elapsed = now - this.askedAt
    if (arrived === 0 && tokens === 0 && elapsed < refreshEvery) return null
    this.ownDemand = this.ownDemand * Math.exp(-elapsed / demandMemory) + arrived
    this.askedAt = now
    this.arrived = 0
    const expected = Math.max(arrived, (this.ownDemand / demandMemory) * leaseEvery)
    const reserve = Math.min(extra, perSecond * extraSeconds)
    const needed = expected < least / 10 ? 0 : expected * headroom + reserve
    const wanted = needed - tokens
    return { supplier: this.supplier, rate: perSecond, depth: depthOf(perSecond), wanted, arrived }
  }

  /** `equal`: the share of each node if none has requests. */
  granted({ tokens, demand }: TokenGrant, equal: number): void {
    this.tokens += tokens
    this.alone = null
    this.share = demand < least ? equal : Math.min(1, this.ownDemand / demand)
  }

  /** The shared bucket cannot be reached. */
  lost(now: number): void {
    this.alone ??= bucketOf(this.clientQps, now)
    this.tokens = 0
  }
}

/** Leases tokens for all buckets until it is closed. */
export class TokenLeases {
  private readonly shared: SharedTokens
  private readonly buckets: () => Iterable<LeasedBucket>
  private readonly equalShare: () => number
  /** When the request was sent that has no response; null: there is none. */
  private askedAt: number | null = null
  private readonly timer: NodeJS.Timeout

  /** @param equalShare the share of each node, 1 / live nodes */
  constructor(
    shared: SharedTokens,
    buckets: () => Iterable<LeasedBucket>,
    equalShare: () => number,
  ) {
    this.shared = shared
    this.buckets = buckets
    this.equalShare = equalShare
    this.timer = setInterval(() => void this.ask(), leaseEvery).unref()
  }

  close(): void {
    clearInterval(this.timer)
  }

  private lost(): void {
    for (const bucket of this.buckets()) bucket.lost(performance.now())
  }

  private async ask(): Promise<void> {
    const now = performance.now()
    if (this.askedAt !== null) {
      if (now - this.askedAt > responseTimeout) this.lost()
      return
    }
    const asking: LeasedBucket[] = []
    const requests: TokenRequest[] = []
    for (const bucket of this.buckets()) {
      const request = bucket.request(now)
      if (request === null) continue
      asking.push(bucket)
      requests.push(request)
    }
    if (requests.length === 0) return
    this.askedAt = now
    const grants = await this.shared.ask(requests)
    this.askedAt = null
    if (grants === null) this.lost()
    else
      for (const [index, grant] of grants.entries())
        asking[index]!.granted(grant, this.equalShare())
  }
}
