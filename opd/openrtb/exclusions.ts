/** Bids that the operator excluded from OPD: `exclude` and `deals: false` (CONTRACT 2). */
import type { OpdConfig } from '../config.ts'
import type { Bid } from './bid.ts'
import type { RequestFacts } from './facts.ts'

/** The exclusions of one integration. Domains are compared case-insensitively. */
class Exclusions {
  private readonly isEmpty: boolean
  private readonly deals: boolean
  private readonly sets: Readonly<Record<keyof OpdConfig['exclude'], ReadonlySet<string>>>

  constructor({ exclude, deals }: OpdConfig) {
    this.deals = deals
    this.isEmpty = deals && Object.values(exclude).every((list) => list.length === 0)
    const lower = (list: readonly string[]) => new Set(list.map((name) => name.toLowerCase()))
    this.sets = {
      seats: new Set(exclude.seats),
      publishers: new Set(exclude.publishers),
      domains: lower(exclude.domains),
      apps: new Set(exclude.apps),
      adomains: lower(exclude.adomains),
      deals: new Set(exclude.deals),
    }
  }

  matches({ dealid, seatName, adomain }: Bid, request: RequestFacts, isDeal: boolean): boolean {
    if (this.isEmpty) return false
    return (
      (!this.deals && isDeal) ||
      (typeof dealid === 'string' && this.sets.deals.has(dealid)) ||
      (seatName !== null && this.sets.seats.has(seatName)) ||
      (request.publisher !== undefined && this.sets.publishers.has(request.publisher)) ||
      this.hasDomain(request) ||
      request.apps.some((name) => this.sets.apps.has(name)) ||
      (adomain?.some((name) => this.sets.adomains.has(name.toLowerCase())) ?? false)
    )
  }

  private hasDomain(request: RequestFacts): boolean {
    const { domains } = this.sets
    if (domains.size === 0) return false
    const { host } = request
    return (
      request.domains.some((name) => domains.has(name)) || (host !== undefined && domains.has(host))
    )
  }
}

const bound = new WeakMap<OpdConfig, Exclusions>()

/** Built once for each configuration, not for each bid. */
export function exclusionsOf(opd: OpdConfig): Exclusions {
  let exclusions = bound.get(opd)
  if (exclusions === undefined) {
    exclusions = new Exclusions(opd)
    bound.set(opd, exclusions)
  }
  return exclusions
}
