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
  /** Callers that each send the next request ten milliseconds after the end of the one before, beside the arrivals. */
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

/** Events in the order of their time; those of one moment in the order in which they were planned. */
class Agenda {
  now = 0
  private readonly events: { at: number; act: () => void }[] = []
  private readonly pausedUntil: (at: number) => number

  constructor(pausedUntil: Scenario['pausedUntil']) {
    this.pausedUntil = pausedUntil ?? ((at) => at)
  }

  /** An event that our own loop has to see. */
  planOurs(at: number, act: () => void): void {
    this.plan(this.pausedUntil(at), act)
  }

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
    if (this.scenario.down?.(this.agenda.now) === true)
      return this.agenda.plan(this.agenda.now + 0.5, () => request.failed())
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
        this.agenda.planOurs(this.agenda.now, () => request.answered())
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
  private readonly gate: Gate
  private readonly slots: Slots
  private readonly agenda: Agenda
  private readonly ended: (request: Request) => void

  constructor({ gate, slots, agenda, ended }: Parts, deadline: number) {
    this.gate = gate
    this.slots = slots
    this.agenda = agenda
    this.ended = ended
    this.arrived = agenda.now
    this.due = agenda.now + deadline
    if (gate.enter(this, agenda.now) === 'refused') this.refuse()
    else agenda.planOurs(this.due, () => this.expire())
  }

  send(): void {
    this.sentAt = this.agenda.now
    this.slots.take(this)
  }

  refuse(): void {
    this.end('refused')
  }

  private end(outcome: Request['outcome']): void {
    this.over = true
    this.ended({ arrived: this.arrived, ended: this.agenda.now, outcome })
  }

  private expire(): void {
    if (this.over) return
    if (this.sentAt < 0) {
      this.gate.leave(this)
      return this.refuse()
    }
    this.end('late')
    this.slots.abort(this)
    this.gate.finished(this.sentAt, this.agenda.now, false)
  }

  failed(): void {
    if (this.over) return
    this.end('failed')
    this.gate.dropped(this.agenda.now)
  }

  answered(): void {
    if (this.over) return
    this.end(this.agenda.now <= this.due ? 'good' : 'late')
    this.gate.finished(this.sentAt, this.agenda.now, true)
  }
}

/** `limits`: the limit of requests in flight after each request that ended. */
export function simulate(scenario: Scenario): {
  requests: Request[]
  limits: number[]
  gate: Gate
} {
  const agenda = new Agenda(scenario.pausedUntil)
  const gate = new Gate()
  gate.configure(scenario.maxInFlight ?? null, 8192, 0)
  const slots = new Slots(scenario, agenda)
  const requests: Request[] = []
  const limits: number[] = []
  const note = (request: Request) => {
    requests.push(request)
    limits.push(gate.limit)
  }
  const parts: Parts = { gate, slots, agenda, ended: note }
  const arrive = () => {
    const rate = scenario.arrivals(agenda.now)
    if (agenda.now > 0 && rate > 0) new Simulated(parts, scenario.deadline)
    const next = agenda.now + (rate > 0 ? 1000 / rate : 5)
    if (next < scenario.lasts) agenda.planOurs(next, arrive)
  }
  agenda.plan(0, arrive)
  const call = () => {
    if (agenda.now < scenario.lasts) new Simulated(calls, scenario.deadline)
  }
  const calls: Parts = {
    ...parts,
    ended: (request) => {
      note(request)
      agenda.plan(agenda.now + 10, call)
    },
  }
  for (let each = 0; each < (scenario.callers ?? 0); each++) agenda.plan(0, call)
  agenda.run()
  return { requests, limits, gate }
}
