/**
 * The gate of a simulated supplier, in simulated time. The supplier has slots and a queue; requests come to the gate at a
 * given rate. Deterministic for a seed. Tests and the figures of the limiter use it.
 */
import { type Candidate, Gate } from '../../proxy/admission/gate.ts'
import { Agenda } from '../harness/agenda.ts'

export interface Scenario {
  slots: number
  /** Milliseconds that a slot is busy with a request that begins at `at`; infinite: it hangs. */
  service: (at: number) => number
  /** Whether a cancelled request leaves the supplier's queue and slot. */
  cancels: boolean
  /** Milliseconds from the arrival of a request. */
  deadline: number
  /** Requests per second; 0: none. */
  arrivals: (at: number) => number
  /** Beside the arrivals: callers that each send a request ten milliseconds after the end of their last one. */
  callers?: number
  /** Milliseconds. */
  lasts: number
  maxInFlight?: number
  /** When the supplier refuses connections: such a request says nothing about its load. */
  down?: (at: number) => boolean
  /** Until when the event loop of the proxy is blocked, if it is. Events during that time are processed afterwards. */
  pausedUntil?: (at: number) => number
}

export interface Request {
  arrived: number
  ended: number
  outcome: 'good' | 'late' | 'refused' | 'failed'
}

/** Slots, an unbounded queue, and the events of the simulation. */
class Supplier {
  now = 0
  readonly scenario: Scenario
  private readonly agenda = new Agenda<() => void>()
  private readonly queue: Simulated[] = []
  private busy = 0

  constructor(scenario: Scenario) {
    this.scenario = scenario
  }

  plan(at: number, act: () => void): void {
    this.agenda.add(at, act)
  }

  /** An event for the event loop of the proxy, which may be blocked. */
  planOurs(at: number, act: () => void): void {
    this.plan(this.scenario.pausedUntil?.(at) ?? at, act)
  }

  run(): void {
    while (this.agenda.next < Number.POSITIVE_INFINITY) {
      this.now = this.agenda.next
      this.agenda.take()()
    }
  }

  take(request: Simulated): void {
    if (this.scenario.down?.(this.now) === true)
      return this.plan(this.now + 0.5, () => request.failed())
    this.queue.push(request)
    this.work()
  }

  /** The connection of a request was closed. */
  abort(request: Simulated): void {
    if (this.scenario.cancels) this.free(request)
  }

  private work(): void {
    const { slots, service, cancels } = this.scenario
    while (this.busy < slots && this.queue.length > 0) {
      const request = this.queue.shift()!
      if (cancels && request.over) continue
      this.busy++
      request.inSlot = true
      const takes = service(this.now)
      if (takes === Number.POSITIVE_INFINITY) continue
      this.plan(this.now + takes, () => {
        if (request.inSlot) this.planOurs(this.now, () => request.answered())
        this.free(request)
      })
    }
  }

  private free(request: Simulated): void {
    if (!request.inSlot) return
    request.inSlot = false
    this.busy--
    this.work()
  }
}

class Simulated implements Candidate {
  readonly due: number
  inSlot = false
  over = false
  private sentAt = -1
  private readonly arrived: number
  private readonly gate: Gate
  private readonly supplier: Supplier
  private readonly ended: (request: Request) => void

  constructor(gate: Gate, supplier: Supplier, ended: (request: Request) => void) {
    this.gate = gate
    this.supplier = supplier
    this.ended = ended
    this.arrived = supplier.now
    this.due = supplier.now + supplier.scenario.deadline
    if (gate.enter(this, supplier.now) === 'refused') this.refuse()
    else supplier.planOurs(this.due, () => this.expire())
  }

  send(): void {
    this.sentAt = this.supplier.now
    this.supplier.take(this)
  }

  refuse(): void {
    this.end('refused')
  }

  private end(outcome: Request['outcome']): void {
    this.over = true
    this.ended({ arrived: this.arrived, ended: this.supplier.now, outcome })
  }

  private expire(): void {
    if (this.over) return
    if (this.sentAt < 0) {
      this.gate.leave(this)
      return this.refuse()
    }
    this.end('late')
    this.supplier.abort(this)
    this.gate.finished(this.sentAt, this.supplier.now, false)
  }

  failed(): void {
    if (this.over) return
    this.end('failed')
    this.gate.dropped(this.supplier.now)
  }

  answered(): void {
    if (this.over) return
    this.end(this.supplier.now <= this.due ? 'good' : 'late')
    this.gate.finished(this.sentAt, this.supplier.now, true)
  }
}

/** `limits`: the limit of requests in flight after each request that ended. */
export function simulate(scenario: Scenario): {
  requests: Request[]
  limits: number[]
  gate: Gate
} {
  const { lasts, callers = 0 } = scenario
  const supplier = new Supplier(scenario)
  const gate = new Gate()
  gate.configure(scenario.maxInFlight ?? null, 8192, 0)
  const requests: Request[] = []
  const limits: number[] = []
  const note = (request: Request) => {
    requests.push(request)
    limits.push(gate.limit)
  }
  const arrive = () => {
    const rate = scenario.arrivals(supplier.now)
    if (supplier.now > 0 && rate > 0) new Simulated(gate, supplier, note)
    const next = supplier.now + (rate > 0 ? 1000 / rate : 5)
    if (next < lasts) supplier.planOurs(next, arrive)
  }
  supplier.plan(0, arrive)
  const call = () => {
    if (supplier.now < lasts) new Simulated(gate, supplier, noteAndCall)
  }
  const noteAndCall = (request: Request) => {
    note(request)
    supplier.plan(supplier.now + 10, call)
  }
  for (let each = 0; each < callers; each++) supplier.plan(0, call)
  supplier.run()
  return { requests, limits, gate }
}
