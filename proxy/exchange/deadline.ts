/** The time by which a bid request has its response: the route's timeout, or `tmax - tmaxMargin` if that is less (CONTRACT 3). */
import { findTmax } from '../../opd/openrtb/tmax.ts'
import { findProtobufTmax } from '../../opd/protobuf/request.ts'
import type { OpenRtbFormat } from '../../opd/types.ts'
import type { RequestSettings } from '../supplier.ts'
import { type Body, bytesOf } from '../types.ts'

/**
 * The deadlines of all requests in flight: slots of a millisecond, and one timer for all, set for the next slot in use. Nearly
 * every deadline is removed before it is due, and a timer of its own would cost a request 0.9 us.
 */
const slotCount = 1024

/** A deadline, in a ring with the others of its slot; alone in its ring while it is not set. */
export class WheelEntry {
  next: WheelEntry = this
  previous: WheelEntry = this
  /** The deadline, whole milliseconds of `performance.now()`. Its slot is this time modulo the number of slots. */
  dueAt = 0

  /** Called once, at the deadline. */
  onDue(): void {}

  remove(): void {
    this.previous.next = this.next
    this.next.previous = this.previous
    this.next = this
    this.previous = this
  }
}

export class DeadlineWheel {
  private readonly slots = Array.from({ length: slotCount }, () => new WheelEntry())
  /** Slots up to this time are done. */
  private done = Math.floor(performance.now())
  private wakeAt = Number.POSITIVE_INFINITY
  private timer: NodeJS.Timeout | undefined

  /** `due`: `performance.now()` of the deadline. A deadline that has passed is the next millisecond. */
  set(entry: WheelEntry, due: number): void {
    entry.remove()
    const slotTime = Math.max(Math.ceil(due), this.done + 1)
    entry.dueAt = slotTime
    const slot = this.slots[slotTime % slotCount]!
    entry.next = slot
    entry.previous = slot.previous
    slot.previous.next = entry
    slot.previous = entry
    if (slotTime < this.wakeAt) this.wake(slotTime)
  }

  private wake(tick: number): void {
    clearTimeout(this.timer)
    this.wakeAt = tick
    this.timer = setTimeout(this.turn, Math.max(0, Math.ceil(tick - performance.now())))
    // Requests in flight have sockets, which keep the process alive.
    this.timer.unref()
  }

  private readonly turn = (): void => {
    const now = Math.floor(performance.now())
    const due: WheelEntry[] = []
    for (let tick = Math.max(this.done + 1, now - slotCount + 1); tick <= now; tick++) {
      const slot = this.slots[tick % slotCount]!
      for (let entry = slot.next; entry !== slot; ) {
        const { next } = entry
        if (entry.dueAt <= now) {
          entry.remove()
          due.push(entry)
        }
        entry = next
      }
    }
    this.done = now
    this.wakeAt = Number.POSITIVE_INFINITY
    const dueTick = this.nextInUse(now)
    if (dueTick !== null) this.wake(dueTick)
    for (const entry of due) entry.onDue()
  }

  private nextInUse(now: number): number | null {
    for (let tick = now + 1; tick <= now + slotCount; tick++) {
      const slot = this.slots[tick % slotCount]!
      if (slot.next !== slot) return tick
    }
    return null
  }
}

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
  private readonly settings: RequestSettings
  private readonly arrived: number
  private readonly target: { expire(): void }

  /** `arrived`: `performance.now()` at the arrival of the request's head. `target.expire` is called at the deadline. */
  constructor(settings: RequestSettings, arrived: number, target: { expire(): void }) {
    super()
    this.settings = settings
    this.arrived = arrived
    this.target = target
    this.due = arrived + settings.timeout
  }

  override onDue(): void {
    this.target.expire()
  }

  /** Bounds the time that the request's body may take. */
  awaitBody(): void {
    if (this.dueAt === 0) wheel.set(this, this.due)
  }

  /** Sets it again after `remove`. If it has passed meanwhile, it is due in the next millisecond. */
  resume(): void {
    wheel.set(this, this.due)
  }

  /** The request is complete. `request`: the part of its body that may contain `tmax`; null: it is not readable. */
  start(request: Body | null, format: OpenRtbFormat): void {
    this.awaitsBody = false
    const { timeout, tmaxMargin } = this.settings
    const tmax = request === null ? undefined : tmaxOf(request, format)
    const allowed = tmax === undefined ? timeout : Math.max(1, Math.min(timeout, tmax - tmaxMargin))
    // Most requests have a tmax a little shorter than `timeout`. A very short one says nothing about the endpoint.
    this.countsAsFailure = allowed * 2 >= timeout
    this.due = this.arrived + allowed
    wheel.set(this, this.due)
  }
}
