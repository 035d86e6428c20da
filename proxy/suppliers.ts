/** The suppliers of the proxy: their configuration, their state in the directory, and their metrics since the start. */
import { getOrAdd } from '../opd/base/get-or-add.ts'
import type { Log } from '../opd/base/log.ts'
import type { Engine } from '../opd/types.ts'
import type { LeasedBucket } from './admission/allotment.ts'
import type { Route } from './config.ts'
import { SupplierMetrics } from './metrics.ts'
import { type DirectoryState, type NodeUpstream, Supplier } from './supplier.ts'

export type UnhealthyEndpoints = ReadonlyMap<string, ReadonlyMap<string, string>>

interface SuppliersOptions {
  engine: Pick<Engine, 'responsesOf'>
  upstream: NodeUpstream
  /** The nodes share one bucket of each allotment. */
  leased: boolean
  /** The limit of requests in flight for any supplier. */
  maxInFlight: number
  log: Log
}

const unlisted: DirectoryState = { inactiveSeats: new Set(), allotment: undefined }

export class Suppliers {
  /** Those that have a `/bid` path. */
  readonly all = new Map<string, Supplier>()
  /** Origins of `/pass`, by supplier. */
  readonly passOrigins = new Map<string, string>()
  /** Faults of endpoints that fail the health checks of another process, by supplier and endpoint. */
  private unhealthy: UnhealthyEndpoints = new Map()
  /** Counters survive the removal of a supplier. */
  readonly metrics = new Map<string, SupplierMetrics>()
  private stateOf: (supplier: string) => DirectoryState | undefined = () => undefined
  /** This node's part of each allotment: 1 / live nodes. */
  share = 1
  private maxInFlight: number
  private readonly options: SuppliersOptions

  constructor(options: SuppliersOptions) {
    this.options = options
    this.maxInFlight = options.maxInFlight
  }

  /** Adds a supplier, or changes its configuration. A supplier without endpoints has no `/bid` path. */
  set(route: Route): void {
    const { id, endpoints, passThrough } = route
    if (passThrough === undefined) this.passOrigins.delete(id)
    else this.passOrigins.set(id, passThrough)
    const known = this.all.get(id)
    if (endpoints.length === 0) this.close(id)
    else if (known === undefined) this.addSupplier(route)
    else {
      known.configure(route)
      known.limit(this.maxInFlight)
      this.applyUnhealthy(known)
    }
  }

  private applyUnhealthy(supplier: Supplier): void {
    if (!this.options.upstream.checksHealth) supplier.setUnhealthy(this.unhealthy.get(supplier.id))
  }

  setUnhealthy(unhealthy: UnhealthyEndpoints): void {
    const before = this.unhealthy
    this.unhealthy = unhealthy
    for (const id of new Set([...before.keys(), ...unhealthy.keys()])) {
      const supplier = this.all.get(id)
      if (supplier !== undefined) this.applyUnhealthy(supplier)
    }
  }

  /** Faults of endpoints that fail the health checks of this process. */
  get unhealthyEndpoints(): UnhealthyEndpoints {
    const found: Map<string, Map<string, string>> = new Map()
    for (const supplier of this.all.values())
      for (const { name, unhealthy } of supplier.everyEndpoint())
        if (unhealthy !== null) getOrAdd(found, supplier.id, () => new Map()).set(name, unhealthy)
    return found
  }

  private addSupplier(route: Route): void {
    const { engine, upstream, log } = this.options
    const { id } = route
    const responses = engine.responsesOf(id)
    const supplier = new Supplier(route, this.metricsOf(id), responses, upstream, log)
    supplier.limit(this.maxInFlight)
    this.applyDirectory(supplier)
    this.applyUnhealthy(supplier)
    this.all.set(id, supplier)
  }

  /** Requests in flight get their responses. */
  remove(id: string): void {
    this.passOrigins.delete(id)
    this.close(id)
  }

  private close(id: string): void {
    this.all.get(id)?.close()
    this.all.delete(id)
  }

  /** The metrics of a supplier; new ones at its first use. */
  metricsOf(id: string): SupplierMetrics {
    const metrics = this.metrics.get(id) ?? new SupplierMetrics()
    this.metrics.set(id, metrics)
    return metrics
  }

  limit(maxInFlight: number): void {
    if (maxInFlight === this.maxInFlight) return
    this.maxInFlight = maxInFlight
    for (const supplier of this.all.values()) supplier.limit(maxInFlight)
  }

  /**
   * The directory or the number of live nodes has changed.
   *
   * @param stateOf the state of a supplier by its identifier; undefined: the directory does not list it
   * @param share this node's part of each allotment, 1 / live nodes
   */
  setDirectory(stateOf: typeof this.stateOf, share: number): void {
    this.stateOf = stateOf
    this.share = share
    for (const supplier of this.all.values()) this.applyDirectory(supplier)
  }

  private applyDirectory(supplier: Supplier): void {
    const state = this.stateOf(supplier.id) ?? unlisted
    supplier.setDirectoryState(state, this.share, this.options.leased)
  }

  /** The buckets that the nodes share. */
  *leasedBuckets(): Generator<LeasedBucket> {
    for (const { leasedBucket } of this.all.values()) if (leasedBucket !== null) yield leasedBucket
  }

  destroy(): void {
    for (const supplier of this.all.values()) supplier.destroy()
  }
}
