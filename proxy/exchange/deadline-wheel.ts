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
  at = 0

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
    const at = Math.max(Math.ceil(due), this.done + 1)
    entry.at = at
    const slot = this.slots[at % slotCount]!
    entry.next = slot
    entry.previous = slot.previous
    slot.previous.next = entry
    slot.previous = entry
    if (at < this.wakeAt) this.wake(at)
  }

  private wake(at: number): void {
    clearTimeout(this.timer)
    this.wakeAt = at
    this.timer = setTimeout(this.turn, Math.max(0, Math.ceil(at - performance.now())))
    // Requests in flight have sockets, which keep the process alive.
    this.timer.unref()
  }

  private readonly turn = (): void => {
    const now = Math.floor(performance.now())
    const due: WheelEntry[] = []
    for (let at = Math.max(this.done + 1, now - slotCount + 1); at <= now; at++) {
      const slot = this.slots[at % slotCount]!
      for (let entry = slot.next; entry !== slot; ) {
        const { next } = entry
        if (entry.at <= now) {
          entry.remove()
          due.push(entry)
        }
        entry = next
      }
    }
    this.done = now
    this.wakeAt = Number.POSITIVE_INFINITY
    const at = this.nextInUse(now)
    if (at !== null) this.wake(at)
    for (const entry of due) entry.onDue()
  }

  private nextInUse(now: number): number | null {
    for (let at = now + 1; at <= now + slotCount; at++) {
      const slot = this.slots[at % slotCount]!
      if (slot.next !== slot) return at
    }
    return null
  }
}
