/**
 * The counters of a worker, sent to the first process as increments and added to its own, so that /metrics, the console and
 * the shared figures of a node are sums without knowing of workers. What a worker that ended has sent stays counted.
 */
import type { EngineStats, ModeStats, SupplierStats } from '../../opd/pricing/stats.ts'
import { type Mode, modes } from '../../opd/shared/arms.ts'
import type { ProxyCounters } from '../../proxy/proxy.ts'

/** Guard and multipliers of the latest decision. They are states, not counts. */
const states: ReadonlySet<string> = new Set(['theta', 'lambda'])

type Control = Pick<ModeStats, 'guard' | 'theta' | 'lambda' | 'configured'>

interface SupplierCounts {
  id: string
  proxy: Float64Array
  engine: Float64Array
  control: Record<Mode, Control>
}

export interface Counts {
  /** Bid requests that finished. */
  requests: number
  suppliers: SupplierCounts[]
  faults: Float64Array
  closed: Map<string, number>
  logged: Map<string, number>
  decoded: number
  lag: number
}

/** A number of counters, or several. */
type Place = Float64Array | { holder: Record<string, number>; key: string }

/** Where the numbers of counters are, in the order of their keys. */
interface Places {
  list: Place[]
  size: number
  /** What is null, and may be counters later. Those are the last key, so that the numbers before them stay where they are. */
  absent: { holder: Record<string, unknown>; key: string }[]
}

function addPlaces(counters: object, places: Places): void {
  if (counters instanceof Float64Array) {
    places.list.push(counters)
    places.size += counters.length
    return
  }
  const holder = counters as Record<string, number>
  for (const [key, value] of Object.entries(counters)) {
    if (typeof value === 'number') {
      if (states.has(key)) continue
      places.list.push({ holder, key })
      places.size++
    } else if (value === null) places.absent.push({ holder, key })
    else if (typeof value === 'object') addPlaces(value, places)
  }
}

const isCounters = ({ holder, key }: Places['absent'][number]) =>
  typeof holder[key] === 'object' && holder[key] !== null

/** They are searched once: thousands of suppliers are counted in each report. */
const known = new WeakMap<object, Places>()
function placesOf(counters: object): Places {
  const before = known.get(counters)
  if (before !== undefined && !before.absent.some(isCounters)) return before
  const places: Places = { list: [], size: 0, absent: [] }
  addPlaces(counters, places)
  known.set(counters, places)
  return places
}

/** Adds what `Increments` returned. */
function add(counters: object, increments: Float64Array): void {
  let first = 0
  let next = 0
  for (const place of placesOf(counters).list) {
    const end = first + (place instanceof Float64Array ? place.length : 1)
    for (; next < increments.length && increments[next]! < end; next += 2) {
      const change = increments[next + 1]!
      if (place instanceof Float64Array) place[increments[next]! - first]! += change
      else place.holder[place.key]! += change
    }
    first = end
  }
}

/**
 * Increments since the last call, by the identity of the counters: the place of a number that has changed, and by how much.
 * Most cells of histograms have not.
 */
class Increments {
  private readonly before = new WeakMap<object, Float64Array>()

  incrementsOf(counters: object): Float64Array {
    const places = placesOf(counters)
    const before = this.beforeOf(counters, places.size)
    const changes: number[] = []
    let offset = 0
    const compare = (value: number) => {
      if (value !== before[offset]!) {
        changes.push(offset, value - before[offset]!)
        before[offset] = value
      }
      offset++
    }
    for (const place of places.list) {
      if (place instanceof Float64Array)
        for (let index = 0; index < place.length; index++) compare(place[index]!)
      else compare(place.holder[place.key]!)
    }
    return Float64Array.from(changes)
  }

  private beforeOf(counters: object, size: number): Float64Array {
    const before = this.before.get(counters)
    if (before?.length === size) return before
    const longer = new Float64Array(size)
    if (before !== undefined) longer.set(before)
    this.before.set(counters, longer)
    return longer
  }
}

/** Increments of counts by name since the last call. */
class MapIncrements {
  private readonly before = new Map<string, number>()

  incrementsOf(counts: ReadonlyMap<string, number>): Map<string, number> {
    const increments = new Map<string, number>()
    for (const [name, count] of counts) {
      const more = count - (this.before.get(name) ?? 0)
      if (more > 0) increments.set(name, more)
      this.before.set(name, count)
    }
    return increments
  }
}

const controlOf = ({ modes: byMode }: SupplierStats) =>
  Object.fromEntries(
    modes.map((mode) => {
      const { guard, theta, lambda, configured } = byMode[mode]
      return [mode, { guard, theta, lambda, configured }]
    }),
  ) as Record<Mode, Control>

/** Takes the increments of a worker since the last call. */
export function countsTaker(stats: EngineStats, proxy: ProxyCounters): () => Counts {
  const increments = new Increments()
  const totals = new Map<string, number>()
  const closed = new MapIncrements()
  const logged = new MapIncrements()
  let decodedBefore = 0
  return () => {
    const suppliers: SupplierCounts[] = []
    let requests = 0
    for (const [id, metrics] of proxy.suppliers) {
      // What the engine counts is part of a request, so without a request nothing has changed.
      const { total } = metrics
      const before = totals.get(id) ?? 0
      if (total === before) continue
      totals.set(id, total)
      requests += total - before
      const engine = stats.supplierStats(id)
      suppliers.push({
        id,
        proxy: increments.incrementsOf(metrics),
        engine: increments.incrementsOf(engine),
        control: controlOf(engine),
      })
    }
    const decoded = proxy.decoder.bytes - decodedBefore
    decodedBefore += decoded
    const faults = increments.incrementsOf(stats.faults)
    return {
      ...{ requests, suppliers, faults, decoded, lag: proxy.largestLag.takeLargest() },
      closed: closed.incrementsOf(proxy.closed),
      logged: logged.incrementsOf(proxy.logged),
    }
  }
}

export function addCounts(counts: Counts, stats: EngineStats, proxy: ProxyCounters): void {
  for (const { id, proxy: requests, engine, control } of counts.suppliers) {
    add(proxy.metricsOf(id), requests)
    const supplierStats = stats.supplierStats(id)
    add(supplierStats, engine)
    for (const mode of modes) {
      const { configured, ...latest } = control[mode]
      if (latest.guard !== null) Object.assign(supplierStats.modes[mode], latest)
      supplierStats.modes[mode].configured ||= configured
    }
  }
  add(stats.faults, counts.faults)
  for (const [added, sums] of [
    [counts.closed, proxy.closed],
    [counts.logged, proxy.logged],
  ] as const)
    for (const [name, count] of added) sums.set(name, (sums.get(name) ?? 0) + count)
  proxy.decoder.bytes += counts.decoded
  proxy.largestLag.observe(counts.lag)
}
