/** The time by which a bid request has its response: the route's timeout, or `tmax - tmaxMargin` if that is less (CONTRACT 3). */
import { findTmax } from '../../opd/openrtb/tmax.ts'
import { findProtobufTmax } from '../../opd/protobuf/request.ts'
import type { OpenRtbFormat } from '../../opd/types.ts'
import type { Supplier } from '../supplier.ts'
import { type Body, bytesOf } from '../types.ts'
import { DeadlineWheel, WheelEntry } from './deadline-wheel.ts'

const tmaxOf = (request: Body, format: OpenRtbFormat): number | undefined =>
  format === 'json' ? findTmax(request) : findProtobufTmax(bytesOf(request))

const wheel = new DeadlineWheel()

export class Deadline extends WheelEntry {
  /** The request is not complete: what passes is the time of the caller. */
  awaitsBody = true
  /** Whether the endpoint had enough time for a timeout to count as its failure. */
  countsAsFailure = true
  /** `performance.now()` of the deadline. */
  due: number
  private readonly route: Supplier['route']
  private readonly arrived: number
  private readonly target: { expire(): void }

  /** `arrived`: `performance.now()` at the arrival of the request's head. `target.expire` is called at the deadline. */
  constructor(route: Supplier['route'], arrived: number, target: { expire(): void }) {
    super()
    this.route = route
    this.arrived = arrived
    this.target = target
    this.due = arrived + route.timeout
  }

  override onDue(): void {
    this.target.expire()
  }

  /** Bounds the time that the request's body may take. */
  awaitBody(): void {
    if (this.at === 0) wheel.set(this, this.due)
  }

  /** The request is complete. `request`: the part of its body that may contain `tmax`; null: it is not readable. */
  start(request: Body | null, format: OpenRtbFormat): void {
    this.awaitsBody = false
    const { timeout, tmaxMargin } = this.route
    const tmax = request === null ? undefined : tmaxOf(request, format)
    const allowed = tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    // Most requests have a tmax a little shorter than `timeout`. A very short one says nothing about the endpoint.
    this.countsAsFailure = allowed * 2 >= timeout
    this.due = this.arrived + allowed
    wheel.set(this, this.due)
  }
}
