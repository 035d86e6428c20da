/** What the operator keeps OPD away from: `exclude` and `deals: false` (CONTRACT 2). */
import type { OpdConfig } from '../config.ts'
import type { RequestFacts } from './request.ts'

/** What of a bid exclusions look at. */
interface Excludable {
  dealid: unknown
  seat: string | null
  adomain: readonly string[] | null
}

/** The lists of one integration as this.sets. Domains are compared without regard to case. */
class Exclusions {
  private readonly none: boolean
  private readonly deals: boolean
  private readonly sets: Readonly<Record<keyof OpdConfig['exclude'], ReadonlySet<string>>>

  constructor({ exclude, deals }: OpdConfig) {
    this.deals = deals
    this.none = deals && Object.values(exclude).every((list) => list.length === 0)
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

  meet({ dealid, seat, adomain }: Excludable, request: RequestFacts, isDeal: boolean): boolean {
    if (this.none) return false
    return (
      (!this.deals && isDeal) ||
      (typeof dealid === 'string' && this.sets.deals.has(dealid)) ||
      (seat !== null && this.sets.seats.has(seat)) ||
      (request.publisher !== undefined && this.sets.publishers.has(request.publisher)) ||
      request.domains.some((name) => this.sets.domains.has(name)) ||
      (request.host !== undefined && this.sets.domains.has(request.host)) ||
      request.apps.some((name) => this.sets.apps.has(name)) ||
      (adomain?.some((name) => this.sets.adomains.has(name.toLowerCase())) ?? false)
    )
  }
}

const bound = new WeakMap<OpdConfig, Exclusions>()

/** Bound once per configuration, not per bid. */
export function exclusionsOf(opd: OpdConfig): Exclusions {
  let exclusions = bound.get(opd)
  if (exclusions === undefined) {
    exclusions = new Exclusions(opd)
    bound.set(opd, exclusions)
  }
  return exclusions
}
