/**
 * The load of a node whose listener several processes share. Each process reports its gauges, and the first shows the sums.
 * Counters are added up where they are kept (service/workers).
 */
import {
  type EndpointState,
  hadTraffic,
  type ProxyState,
  type SupplierState,
} from './exposition.ts'

interface EndpointLoad {
  url: string
  inFlight: number
  open: number
  idle: number
  state: EndpointState['state']
}

interface SupplierLoad {
  /** Queries per second of the allotment; 0 without a limit. */
  clientQps: number
  inFlight: number
  limit: number
  queued: number
  endpoints: EndpointLoad[]
}

/** The gauges of one process. */
export interface ProcessLoad {
  connections: number
  heldBytes: number
  maxHeldBytes: number
  running: number
  waiting: number
  /** Suppliers that had a request, or have an allotment. */
  suppliers: Map<string, SupplierLoad>
}

type Gauges = Pick<ProxyState, 'suppliers' | 'connections' | 'heldBytes' | 'maxHeldBytes'> & {
  decoder: { running: number; waiting: number }
}

export function loadOf(state: Gauges): ProcessLoad {
  const suppliers = new Map<string, SupplierLoad>()
  for (const supplier of state.suppliers()) {
    const { id, clientQps, inFlight, gate, endpoints } = supplier
    if (clientQps === null && !hadTraffic(supplier)) continue
    const { limit, queued } = gate
    suppliers.set(id, {
      ...{ clientQps: clientQps ?? 0, inFlight, limit, queued },
      endpoints: endpoints.all.map(({ url, inFlight, state, pool: { open, idle } }) => ({
        url: url.href,
        ...{ inFlight, open, idle, state },
      })),
    })
  }
  const { running, waiting } = state.decoder
  return {
    connections: state.connections(),
    heldBytes: state.heldBytes(),
    maxHeldBytes: state.maxHeldBytes(),
    ...{ running, waiting, suppliers },
  }
}

const severity: readonly EndpointState['state'][] = ['up', 'failing', 'ejected']

class NodeEndpoint implements EndpointState {
  readonly url: URL
  inFlight: number
  state: EndpointState['state']
  readonly pool: { open: number; idle: number }

  constructor({ url, inFlight, state, pool: { open, idle } }: EndpointState) {
    this.url = url
    this.inFlight = inFlight
    this.state = state
    this.pool = { open, idle }
  }

  add({ inFlight, open, idle, state }: EndpointLoad): void {
    this.inFlight += inFlight
    this.pool.open += open
    this.pool.idle += idle
    if (severity.indexOf(state) > severity.indexOf(this.state)) this.state = state
  }
}

/** Queries per second that a supplier is allotted at this node; null: no limit. */
export function nodeQps(
  { id, clientQps }: Pick<SupplierState, 'id' | 'clientQps'>,
  others: Iterable<ProcessLoad>,
): number | null {
  if (clientQps === null) return null
  let sum = clientQps
  for (const { suppliers } of others) sum += suppliers.get(id)?.clientQps ?? 0
  return sum
}

/** A supplier with the sums of all processes. */
class NodeSupplier implements SupplierState {
  private readonly own: SupplierState
  private readonly others: () => Iterable<ProcessLoad>

  constructor(own: SupplierState, others: () => Iterable<ProcessLoad>) {
    this.own = own
    this.others = others
  }

  get id() {
    return this.own.id
  }
  get clientQps() {
    return nodeQps(this.own, this.others())
  }
  get active() {
    return this.own.active
  }
  get metrics() {
    return this.own.metrics
  }

  private *loads(): Generator<SupplierLoad> {
    for (const { suppliers } of this.others()) {
      const load = suppliers.get(this.own.id)
      if (load !== undefined) yield load
    }
  }

  get inFlight(): number {
    let sum = this.own.inFlight
    for (const { inFlight } of this.loads()) sum += inFlight
    return sum
  }

  get gate() {
    let { limit, queued } = this.own.gate
    for (const load of this.loads()) {
      limit += load.limit
      queued += load.queued
    }
    return { limit, queued }
  }

  get endpoints() {
    const all = this.own.endpoints.all.map((endpoint) => new NodeEndpoint(endpoint))
    for (const { endpoints } of this.loads())
      for (const load of endpoints) all.find(({ url }) => url.href === load.url)?.add(load)
    return { all }
  }
}

/** The state of the node: that of this process, and the loads of the others. */
export function nodeState(own: ProxyState, others: () => Iterable<ProcessLoad>): ProxyState {
  const known = new WeakMap<SupplierState, NodeSupplier>()
  // One object for each supplier, because a scrape compares them.
  const nodeSupplier = (supplier: SupplierState) => {
    const made = known.get(supplier) ?? new NodeSupplier(supplier, others)
    known.set(supplier, made)
    return made
  }
  const sum = (of: number, value: (load: ProcessLoad) => number) => {
    let total = of
    for (const load of others()) total += value(load)
    return total
  }
  return {
    *suppliers() {
      for (const supplier of own.suppliers()) yield nodeSupplier(supplier)
    },
    connections: () => sum(own.connections(), ({ connections }) => connections),
    heldBytes: () => sum(own.heldBytes(), ({ heldBytes }) => heldBytes),
    maxHeldBytes: () => sum(own.maxHeldBytes(), ({ maxHeldBytes }) => maxHeldBytes),
    decoder: {
      get running() {
        return sum(own.decoder.running, ({ running }) => running)
      },
      get waiting() {
        return sum(own.decoder.waiting, ({ waiting }) => waiting)
      },
      get bytes() {
        return own.decoder.bytes
      },
    },
    closed: own.closed,
  }
}
