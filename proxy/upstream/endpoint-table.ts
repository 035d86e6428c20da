/**
 * Which endpoints of a supplier get requests, prepared whenever a state changes, so that a request only draws two of them.
 *
 * Priority: the lowest level at least half of whose endpoints are available. If no level has as many, results of health checks
 * are not believed: all endpoints are used but those that failed requests, or were ejected by hand.
 *
 * Zone: endpoints of the node's zone get all of its requests while they are at least as large a part of the weights as the
 * zone is of all zones. If they are less, the rest goes to the other zones: with equally many nodes in each zone, every
 * endpoint then gets its share.
 */

/** What the choice needs of an endpoint. */
export interface Choosable {
  readonly weight: number
  readonly zone: string | undefined
  readonly priority: number
  readonly inFlight: number
  /** It gets requests. */
  readonly available: boolean
  /** It gets requests if too few are available. */
  readonly usable: boolean
}

/** Draws endpoints in proportion to their weights: the alias method (Vose 1991), one random number for a draw. */
class WeightedDraw<E extends Choosable> {
  private readonly endpoints: readonly E[]
  private readonly kept: Float64Array
  private readonly alias: Uint16Array

  constructor(endpoints: readonly E[]) {
    const { length } = endpoints
    const total = endpoints.reduce((sum, { weight }) => sum + weight, 0)
    this.endpoints = endpoints
    this.kept = Float64Array.from(endpoints, ({ weight }) => (weight * length) / total)
    this.alias = Uint16Array.from(endpoints.keys())
    const small = [...endpoints.keys()].filter((slot) => this.kept[slot]! < 1)
    const large = [...endpoints.keys()].filter((slot) => this.kept[slot]! > 1)
    for (let from = small.pop(); from !== undefined; from = small.pop()) {
      const to = large.at(-1)
      // Only after an error of rounding.
      if (to === undefined) break
      this.alias[from] = to
      this.kept[to]! -= 1 - this.kept[from]!
      if (this.kept[to]! > 1) continue
      large.pop()
      if (this.kept[to]! < 1) small.push(to)
    }
  }

  private draw(random: () => number): number {
    const drawn = random() * this.endpoints.length
    const slot = Math.floor(drawn)
    return drawn - slot < this.kept[slot]! ? slot : this.alias[slot]!
  }

  /** Of two drawn endpoints the one with fewer requests in flight for its weight (Mitzenmacher 2001). */
  choose(random: () => number): E {
    const { endpoints } = this
    const first = this.draw(random)
    if (endpoints.length === 1) return endpoints[0]!
    const drawn = endpoints.length === 2 ? first : this.draw(random)
    // A different one: with the same one twice, one of two endpoints that hangs would get a quarter of the requests.
    const second = drawn === first ? (first + 1) % endpoints.length : drawn
    const one = endpoints[first]!
    const other = endpoints[second]!
    return other.inFlight * one.weight < one.inFlight * other.weight ? other : one
  }
}

/** The level whose endpoints are used, and whether too few of every level are available. */
function usedLevel<E extends Choosable>(all: readonly E[]): { endpoints: E[]; panicking: boolean } {
  for (const priority of [...new Set(all.map((other) => other.priority))].sort((a, b) => a - b)) {
    const level = all.filter((other) => other.priority === priority)
    const available = level.filter((other) => other.available)
    if (2 * available.length >= level.length) return { endpoints: available, panicking: false }
  }
  const usable = all.filter((other) => other.usable)
  return { endpoints: usable.length > 0 ? usable : [...all], panicking: true }
}

const weightOf = (endpoints: readonly Choosable[]) =>
  endpoints.reduce((sum, { weight }) => sum + weight, 0)

export class EndpointTable<E extends Choosable> {
  readonly panicking: boolean
  private readonly endpoints: readonly E[]
  /** Of the node's zone, or all if it has none. */
  private readonly near: WeightedDraw<E>
  private readonly far: WeightedDraw<E> | null
  /** Share of the requests that stay near. */
  private readonly nearShare: number

  /** @param zone of the node */
  constructor(all: readonly E[], zone: string | null) {
    const { endpoints, panicking } = usedLevel(all)
    this.panicking = panicking
    this.endpoints = endpoints
    const near = endpoints.filter((endpoint) => endpoint.zone === zone)
    if (zone === null || near.length === 0 || near.length === endpoints.length) {
      this.near = new WeightedDraw(endpoints)
      this.far = null
      this.nearShare = 1
      return
    }
    const priorities = new Set(endpoints.map(({ priority }) => priority))
    // Zones that have no available endpoint have nodes, too.
    const zones = new Set(all.filter((other) => priorities.has(other.priority)).map((e) => e.zone))
    this.near = new WeightedDraw(near)
    this.far = new WeightedDraw(endpoints.filter((endpoint) => endpoint.zone !== zone))
    this.nearShare = Math.min(1, (zones.size * weightOf(near)) / weightOf(endpoints))
  }

  choose(random: () => number): E {
    const { far, nearShare } = this
    return far === null || nearShare === 1 || random() < nearShare
      ? this.near.choose(random)
      : far.choose(random)
  }

  /** For a replay: the least loaded of the others; undefined: there is no other. */
  other(than: E): E | undefined {
    let found: E | undefined
    for (const endpoint of this.endpoints)
      if (
        endpoint !== than &&
        (found === undefined || endpoint.inFlight * found.weight < found.inFlight * endpoint.weight)
      )
        found = endpoint
    return found
  }
}
