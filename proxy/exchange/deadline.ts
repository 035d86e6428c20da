/** When a bid request has waited long enough: the route's timeout, or less where the request's tmax says so (CONTRACT 3). */
import { findTmax } from '../../opd/openrtb/tmax.ts'
import type { Supplier } from '../supplier.ts'

interface Expires {
  expire(): void
}

export class Deadline {
  /** Whether the endpoint had long enough for its silence to count against it. */
  fair = true
  /** When it comes, `performance.now()`. */
  due: number
  private timer: NodeJS.Timeout | null = null
  private readonly of: Expires
  private readonly route: Supplier['route']
  private readonly arrived: number

  /** `arrived`: when the head did, on the monotonic clock, milliseconds; everything counts from there. */
  constructor(of: Expires, route: Supplier['route'], arrived: number) {
    this.of = of
    this.route = route
    this.arrived = arrived
    this.due = arrived + route.timeout
  }

  /** The body may take longer than the supplier has. */
  awaitBody(): void {
    this.timer ??= setTimeout(expire, this.route.timeout, this.of)
  }

  /** The request is here; null where it does not decode. */
  start(request: Buffer | null): void {
    const { timeout, tmaxMargin } = this.route
    const tmax = request === null ? undefined : findTmax(request)
    const deadline =
      tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    // A very short tmax says nothing about the endpoint; one a little shorter than `timeout` is what most send.
    this.fair = deadline * 2 >= timeout
    this.due = this.arrived + deadline
    const left = this.due - performance.now()
    this.clear()
    this.timer = setTimeout(expire, Math.max(1, left), this.of)
  }

  clear(): void {
    if (this.timer !== null) clearTimeout(this.timer)
  }
}

function expire(of: Expires): void {
  of.expire()
}
