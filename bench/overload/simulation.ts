/**
 * The gate before a simulated supplier, without real time: slots with a queue of their own behind the gate, requests
 * at a given rate before it. Deterministic for a seed; it is what tests and the figures of the limiter rest on.
 */
import { type Candidate, Gate } from '../../proxy/gate.ts'

export interface Scenario {
  slots: number
  /** Milliseconds that a slot is busy with a request which it begins then; infinite: it hangs. */
  service: (at: number) => number
  /** Whether a request that was given up leaves the supplier's queue and slot. */
  cancels: boolean
  /** Milliseconds from the arrival of a request. */
  deadline: number
  /** Requests per second; 0: none. */
  arrivals: (at: number) => number
  /** Milliseconds. */
  lasts: number
  maxInFlight?: number
}

export interface Request {
  arrived: number
  ended: number
  outcome: 'good' | 'late' | 'refused'
}

/** Events in the order of their time; those of one moment in the order in which they were planned. */
class Agenda {
  now = 0
  private readonly events: { at: number; act: () => void }[] = []

  plan(at: number, act: () => void): void {
    let low = 0
    let high = this.events.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.events[middle]!.at > at) low = middle + 1
      else high = middle
    }
    this.events.splice(low, 0, { at, act })
  }

  run(): void {
    for (let event = this.events.pop(); event !== undefined; event = this.events.pop()) {
      this.now = event.at
      event.act()
    }
  }
}

/** So many slots, and a queue without end. */
class Slots {
  private busy = 0
  private readonly queue: Simulated[] = []
  private readonly scenario: Scenario
  private readonly agenda: Agenda

  constructor(scenario: Scenario, agenda: Agenda) {
    this.scenario = scenario
    this.agenda = agenda
  }

  take(request: Simulated): void {
    this.queue.push(request)
    this.work()
  }

  private work(): void {
    const { slots, service, cancels } = this.scenario
    while (this.busy < slots && this.queue.length > 0) {
      const request = this.queue.shift()!
      if (cancels && request.over) continue
      this.busy++
      const takes = service(this.agenda.now)
      request.inSlot = true
      if (takes === Number.POSITIVE_INFINITY) continue
      this.agenda.plan(this.agenda.now + takes, () => {
        if (!request.inSlot) return
        request.inSlot = false
        this.busy--
        request.answered()
        this.work()
      })
    }
  }

  /** The connection of a request was closed. */
  abort(request: Simulated): void {
    if (!this.scenario.cancels || !request.inSlot) return
    request.inSlot = false
    this.busy--
    this.work()
  }
}

interface Parts {
  gate: Gate
  slots: Slots
  agenda: Agenda
  ended: (request: Request) => void
}

class Simulated implements Candidate {
  readonly due: number
  inSlot = false
  over = false
  private sentAt = -1
  private readonly arrived: number
  private readonly parts: Parts

  constructor(parts: Parts, deadline: number) {
    const { agenda, gate } = parts
    this.parts = parts
    this.arrived = agenda.now
    this.due = agenda.now + deadline
    if (gate.enter(this, agenda.now) === 'refused') this.refuse()
    else agenda.plan(this.due, () => this.expire())
  }

  send(): void {
    this.sentAt = this.parts.agenda.now
    this.parts.slots.take(this)
  }

  refuse(): void {
    this.end('refused')
  }

  private end(outcome: Request['outcome']): void {
    this.over = true
    this.parts.ended({ arrived: this.arrived, ended: this.parts.agenda.now, outcome })
  }

  private expire(): void {
    if (this.over) return
    if (this.sentAt < 0) {
      this.parts.gate.leave(this)
      return this.refuse()
    }
    this.end('late')
    this.parts.slots.abort(this)
    this.parts.gate.finished(this.sentAt, this.parts.agenda.now, false)
  }

  answered(): void {
    if (this.over) return
    this.end('good')
    this.parts.gate.finished(this.sentAt, this.parts.agenda.now, true)
  }
}

/** `limits`: the limit of requests in flight after each request that ended. */
export function simulate(scenario: Scenario): {
  requests: Request[]
  limits: number[]
  gate: Gate
} {
  const agenda = new Agenda()
  const gate = new Gate()
  gate.configure(scenario.maxInFlight ?? null, 8192, 0)
  const slots = new Slots(scenario, agenda)
  const requests: Request[] = []
  const limits: number[] = []
  const ended = (request: Request) => {
    requests.push(request)
    limits.push(gate.limit)
  }
  const parts: Parts = { gate, slots, agenda, ended }
  const arrive = () => {
    const rate = scenario.arrivals(agenda.now)
    if (agenda.now > 0 && rate > 0) new Simulated(parts, scenario.deadline)
    const next = agenda.now + (rate > 0 ? 1000 / rate : 5)
    if (next < scenario.lasts) agenda.plan(next, arrive)
  }
  agenda.plan(0, arrive)
  agenda.run()
  return { requests, limits, gate }
}
