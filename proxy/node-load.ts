/**
 * The gauges of a process, and their sums over the processes of a node that share a listener. Counters are added up where
 * they are kept (service/workers).
 */
import { type LimitCause, limitCauses } from './admission/limiter.ts'
import type { Supplier } from './supplier.ts'
import { type EndpointState, endpointStates } from './upstream/endpoint-log.ts'

interface EndpointLoad {
  url: string
  inFlight: number
  /** Connections. */
  open: number
  state: EndpointState
}

export interface SupplierLoad {
  /** Queries per second of the allotment; null: no limit. */
  clientQps: number | null
  inFlight: number
  limit: number
  /** Why it has this value: of several processes, the cause that restricts most. */
  cause: LimitCause
  /** What the limiter has measured of the supplier without a queue: the slowest of several processes. */
  unloaded: { seconds: number; late: number }
  queued: number
  endpoints: EndpointLoad[]
}

/** Gauges that do not belong to a supplier. */
export interface Gauges {
  connections: number
  /** Of these over HTTP/2. */
  http2Connections: number
  heldBytes: number
  maxHeldBytes: number
  /** Bytes of the index of long JSON documents; they count towards `maxHeldBytes`. */
  indexBytes: number
  /** Long responses that are decoded or rewritten, and that wait for it. */
  longResponses: number
  longWaiting: number
  /** gzip requests whose whole body is being decoded, and that wait for it. */
  decoding: number
  waiting: number
}

/** What another process reports. */
export interface ProcessLoad extends Gauges {
  /** Suppliers that had a request, or have an allotment. */
  suppliers: Map<string, SupplierLoad>
}

const loadOf = (supplier: Supplier): SupplierLoad => ({
  ...gaugesOf(supplier),
  endpoints: supplier.everyEndpoint().map(({ url, inFlight, pool, state }) => {
    return { url: url.href, inFlight, open: pool.open, state }
  }),
})

const gaugesOf = ({ clientQps, inFlight, gate }: Supplier) => ({
  clientQps,
  inFlight,
  limit: gate.limit,
  cause: gate.limiter.cause,
  unloaded: gate.limiter.unloaded,
  queued: gate.queued,
})

export function loadsOf(suppliers: Iterable<Supplier>): ProcessLoad['suppliers'] {
  const loads: ProcessLoad['suppliers'] = new Map()
  for (const supplier of suppliers) {
    const { id, clientQps, inFlight, metrics } = supplier
    if (clientQps !== null || inFlight > 0 || metrics.total > 0) loads.set(id, loadOf(supplier))
  }
  return loads
}

const restriction = (cause: LimitCause) => limitCauses.indexOf(cause)
const severity: readonly EndpointState[] = endpointStates

/**
 * The load of a supplier at this node; `others`: the other processes. An endpoint has its worst state.
 *
 * @param supplier with the load of this process
 * @param others what the other processes of the node reported last
 * @returns sums of all processes; an endpoint has its worst state
 */
export function nodeLoad(supplier: Supplier, others: Iterable<ProcessLoad>): SupplierLoad {
  const sum = loadOf(supplier)
  for (const { suppliers } of others) {
    const load = suppliers.get(supplier.id)
    if (load === undefined) continue
    if (sum.clientQps !== null) sum.clientQps += load.clientQps ?? 0
    sum.inFlight += load.inFlight
    sum.limit += load.limit
    if (restriction(load.cause) > restriction(sum.cause)) sum.cause = load.cause
    sum.unloaded = {
      seconds: Math.max(sum.unloaded.seconds, load.unloaded.seconds),
      late: Math.max(sum.unloaded.late, load.unloaded.late),
    }
    sum.queued += load.queued
    for (const { url, inFlight, open, state } of load.endpoints) {
      const endpoint = sum.endpoints.find((endpoint) => endpoint.url === url)
      if (endpoint === undefined) continue
      endpoint.inFlight += inFlight
      endpoint.open += open
      if (severity.indexOf(state) > severity.indexOf(endpoint.state)) endpoint.state = state
    }
  }
  return sum
}
