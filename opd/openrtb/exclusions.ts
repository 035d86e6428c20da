/** Bids that the operator excluded from OPD: `exclude` and `deals: false` (CONTRACT 2). */
import type { OpdConfig } from '../config.ts'
import type { Bid } from './bid.ts'
import type { RequestFacts } from './facts.ts'

type Excludes = (bid: Bid, request: RequestFacts, isDeal: boolean) => boolean

const lower = (names: readonly string[]) => new Set(names.map((name) => name.toLowerCase()))

/** Domains are compared case-insensitively. */
function exclusions({ exclude, deals: permitsDeals }: OpdConfig): Excludes {
  if (permitsDeals && Object.values(exclude).every((list) => list.length === 0)) return () => false
  const deals = new Set(exclude.deals)
  const seats = new Set(exclude.seats)
  const publishers = new Set(exclude.publishers)
  const apps = new Set(exclude.apps)
  const domains = lower(exclude.domains)
  const adomains = lower(exclude.adomains)

  const hasDomain = ({ domains: names, host }: RequestFacts) =>
    names.some((name) => domains.has(name)) || (host !== undefined && domains.has(host))

  return ({ dealid, seatName, adomain, moreDomains }, request, isDeal) =>
    (!permitsDeals && isDeal) ||
    (typeof dealid === 'string' && deals.has(dealid)) ||
    (seatName !== null && seats.has(seatName)) ||
    (request.publisher !== undefined && publishers.has(request.publisher)) ||
    (domains.size > 0 && hasDomain(request)) ||
    request.apps.some((name) => apps.has(name)) ||
    (adomain?.some((name) => adomains.has(name.toLowerCase())) ?? false) ||
    (moreDomains && adomains.size > 0)
}

const made = new WeakMap<OpdConfig, Excludes>()

/** Made once for each configuration, not for each bid. */
export function exclusionsOf(opd: OpdConfig): Excludes {
  let excludes = made.get(opd)
  if (excludes === undefined) {
    excludes = exclusions(opd)
    made.set(opd, excludes)
  }
  return excludes
}
