/**
 * The gate of a simulated supplier, in simulated time. The supplier has slots, and a queue or shared slots; requests come to the
 * gate at a given rate. Deterministic for a seed. Tests and the figures of the limiter use it.
 */
import { type Candidate, Gate } from '../../proxy/admission/gate.ts'
import { Agenda } from '../harness/agenda.ts'

export interface Scenario {
  /** Requests that are worked on at once. */
  slots: number | ((time: number) => number)
  /** Milliseconds of work of a request that begins at `at`; infinite: it hangs. */
  service: (time: number) => number
  /** Requests past the slots share them, instead of waiting in a queue. */
  shares?: boolean
  /** Whether a cancelled request leaves the supplier's queue and slot. */
  cancels: boolean
  /** Whether the supplier never answers a request. It takes no slot. */
  drops?: (time: number) => boolean
  /** Requests in the supplier's queue past which it answers with an error at once. */
  longestQueue?: number
  /** Milliseconds from the arrival of a request. */
  deadline: number | (() => number)
  /** Requests per second; 0: none. */
  arrivals: (time: number) => number
  /** If it is given, the arrivals are a Poisson process. */
  random?: () => number
  /** Beside the arrivals: callers that each send a request ten milliseconds after the end of their last one. */
  callers?: number
  /** Milliseconds. */
  lasts: number
  maxInFlight?: number
  /** When the supplier refuses connections: such a request says nothing about its load. */
  down?: (time: number) => boolean
  /** Until when the event loop of the proxy is blocked, if it is. Events during that time are processed afterwards. */
  pausedUntil?: (time: number) => number
}

export interface Request {
  arrived: number
  ended: number
  outcome: 'good' | 'late' | 'refused' | 'failed'
}

/** The events of the simulation, and what a supplier does with a request. */
class Supplier {
  now = 0
  readonly scenario: Scenario
  private readonly agenda = new Agenda<() => void>()
  private readonly work: Work

  constructor(scenario: Scenario) {
    this.scenario = scenario
    this.work = scenario.shares === true ? new SharedWork(this) : new QueuedWork(this)
  }

  get slots(): number {
    const { slots } = this.scenario
    return typeof slots === 'number' ? slots : slots(this.now)
  }

  plan(time: number, act: () => void): void {
    this.agenda.addEntry(time, act)
  }

  /** An event for the event loop of the proxy, which may be blocked. */
  planOurs(time: number, act: () => void): void {
    this.plan(this.scenario.pausedUntil?.(time) ?? time, act)
  }

  run(): void {
    while (this.agenda.next < Number.POSITIVE_INFINITY) {
      this.now = this.agenda.next
      this.agenda.takeEntry()()
    }
  }

  receive(request: Simulated): void {
    const { down, drops, longestQueue = Number.POSITIVE_INFINITY } = this.scenario
    if (down?.(this.now) === true || this.work.waiting >= longestQueue)
      return this.plan(this.now + 0.5, () => request.failed())
    if (drops?.(this.now) !== true) this.work.addRequest(request)
  }

  /** The connection of a request was closed. */
  abort(request: Simulated): void {
    if (this.scenario.cancels) this.work.remove(request)
  }

  done(request: Simulated): void {
    this.planOurs(this.now, () => request.answered())
  }
}

interface Work {
  readonly waiting: number
  addRequest(request: Simulated): void
  remove(request: Simulated): void
}

/** Slots and an unbounded queue. */
class QueuedWork implements Work {
  private readonly queue = new Set<Simulated>()
  private readonly busy = new Set<Simulated>()
  private readonly supplier: Supplier

  constructor(supplier: Supplier) {
    this.supplier = supplier
  }

  get waiting(): number {
    return this.queue.size
  }

  addRequest(request: Simulated): void {
    this.queue.add(request)
    this.begin()
  }

  remove(request: Simulated): void {
    this.queue.delete(request)
    if (this.busy.delete(request)) this.begin()
  }

  private begin(): void {
    const { supplier, queue, busy } = this
    for (const request of queue) {
      if (busy.size >= supplier.slots) return
      queue.delete(request)
      busy.add(request)
      const takes = supplier.scenario.service(supplier.now)
      if (takes === Number.POSITIVE_INFINITY) continue
      supplier.plan(supplier.now + takes, () => {
        if (!busy.delete(request)) return
        supplier.done(request)
        this.begin()
      })
    }
  }
}

/** Requests past the slots share them equally (processor sharing). */
class SharedWork implements Work {
  readonly waiting = 0
  /** Milliseconds of work that a request which was there from the beginning would have got. */
  private progress = 0
  private since = 0
  private readonly busy = new Set<Simulated>()
  /** By the progress at which they are done. */
  private readonly ends = new Agenda<Simulated>()
  private planned = 0
  private readonly supplier: Supplier

  constructor(supplier: Supplier) {
    this.supplier = supplier
  }

  addRequest(request: Simulated): void {
    this.advance()
    this.busy.add(request)
    this.ends.addEntry(this.progress + this.supplier.scenario.service(this.supplier.now), request)
    this.planNext()
  }

  remove(request: Simulated): void {
    this.advance()
    this.busy.delete(request)
    this.planNext()
  }

  private get speed(): number {
    return Math.min(1, this.supplier.slots / this.busy.size)
  }

  private advance(): void {
    const { now } = this.supplier
    if (this.busy.size > 0) this.progress += (now - this.since) * this.speed
    this.since = now
    while (this.ends.next <= this.progress + 1e-6) {
      const request = this.ends.takeEntry()
      if (this.busy.delete(request)) this.supplier.done(request)
    }
  }

  private planNext(): void {
    const { supplier, ends } = this
    const plan = ++this.planned
    if (this.busy.size === 0 || ends.next === Number.POSITIVE_INFINITY) return
    supplier.plan(supplier.now + Math.max(1e-3, (ends.next - this.progress) / this.speed), () => {
      if (plan !== this.planned) return
      this.advance()
      this.planNext()
    })
  }
}

class Simulated implements Candidate {
  readonly due: number
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
    const { deadline } = supplier.scenario
    this.due = supplier.now + (typeof deadline === 'number' ? deadline : deadline())
    if (gate.enter(this, supplier.now) === 'refused') this.refuse()
    else supplier.planOurs(this.due, () => this.expire())
  }

  send(): void {
    this.sentAt = this.supplier.now
    this.supplier.receive(this)
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
    this.gate.dropped(this.sentAt, this.supplier.now)
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
  const { lasts, callers = 0, random } = scenario
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
    const gap = random === undefined ? 1 : -Math.log(random())
    const next = supplier.now + (rate > 0 ? (gap * 1000) / rate : 5)
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
  for (let caller = 0; caller < callers; caller++) supplier.plan(0, call)
  supplier.run()
  return { requests, limits, gate }
}
