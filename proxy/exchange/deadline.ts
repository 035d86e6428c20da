/** The time by which a bid request has its response: the route's timeout, or `tmax - tmaxMargin` if that is less (CONTRACT 3). */
import { findTmax } from '../../opd/openrtb/tmax.ts'
import type { Body } from '../listen/types.ts'
import type { Supplier } from '../supplier.ts'

export class Deadline<T> {
  /** Whether the endpoint had enough time for a timeout to count as its failure. */
  countsAsFailure = true
  /** `performance.now()` of the deadline. */
  due: number
  private timer: NodeJS.Timeout | null = null
  private readonly route: Supplier['route']
  private readonly arrived: number
  private readonly onDue: (target: T) => void
  private readonly target: T

  /** `arrived`: `performance.now()` at the arrival of the request's head. `onDue` is called with `target`. */
  constructor(route: Supplier['route'], arrived: number, onDue: (target: T) => void, target: T) {
    this.route = route
    this.arrived = arrived
    this.onDue = onDue
    this.target = target
    this.due = arrived + route.timeout
  }

  /** Bounds the time that the request's body may take. */
  awaitBody(): void {
    this.timer ??= setTimeout(this.onDue, this.route.timeout, this.target)
  }

  /** The request is complete. `request` null: it is not readable. */
  start(request: Body | null): void {
    const { timeout, tmaxMargin } = this.route
    const tmax = request === null ? undefined : findTmax(request)
    const allowed = tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    // Most requests have a tmax a little shorter than `timeout`. A very short one says nothing about the endpoint.
    this.countsAsFailure = allowed * 2 >= timeout
    this.due = this.arrived + allowed
    const left = this.due - performance.now()
    this.clear()
    this.timer = setTimeout(this.onDue, Math.max(1, left), this.target)
  }

  clear(): void {
    if (this.timer !== null) clearTimeout(this.timer)
  }
}
