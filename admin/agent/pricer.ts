/** Prices the calls of exchanges, whichever way they come: over gRPC, or as a tool over MCP. */
import { type AgentReason, type Mutation, refusalOf } from '../../opd/agent/agent.ts'
import type { AgentCall } from '../../opd/agent/call.ts'
import type { LoopTurn } from '../../opd/base/loop-turn.ts'
import type { Engine } from '../../opd/types.ts'
import type { AgentMetrics } from './metrics.ts'

/** Calls at once that are priced in several turns of the event loop. Beyond it a call gets no mutation. */
const maxSliced = 32

interface AgentPricerDeps {
  /** Suppliers by the originators that stand for them. */
  originators: Readonly<Record<string, string>>
  engine: Pick<Engine, 'priceAgentCall'>
  metrics: AgentMetrics
  /** Whether there is such an integration, and traffic of it is wanted at this location. */
  supplierState: (id: string) => 'active' | 'inactive' | 'unknown'
  turn: LoopTurn
}

export interface AgentPrices {
  mutations: readonly Mutation[]
  /** Of the model that priced; null: no model was asked. */
  modelVersion: string | null
}

const noPrices: AgentPrices = { mutations: [], modelVersion: null }

/** Prices agent calls, of gRPC and of MCP, and counts them. */
export class AgentPricer {
  private readonly deps: AgentPricerDeps
  private sliced = 0

  constructor(deps: AgentPricerDeps) {
    this.deps = deps
  }

  /**
   * The mutations of one call, at once if this turn of the event loop has time for them.
   *
   * @param deadline - `performance.now()` after which no bid is priced
   * @param lag - milliseconds by which the event loop is late: the call waited in the kernel meanwhile
   * @param sees - whether the caller may ask for prices of a supplier
   */
  price(
    call: AgentCall,
    deadline: number,
    lag: number,
    sees: (ssp: string) => boolean = () => true,
  ): AgentPrices | Promise<AgentPrices> {
    const { engine, metrics, originators, supplierState, turn } = this.deps
    const ssp = originators[call.originator] ?? call.originator
    const state = sees(ssp) ? supplierState(ssp) : 'unknown'
    const label = state === 'unknown' ? '' : ssp
    const refuse = (reason: AgentReason) => {
      metrics.refused(label, reason)
      return noPrices
    }
    const refusal = refusalOf(call)
    if (refusal !== null) return refuse(refusal)
    if (state !== 'active') return refuse(state === 'inactive' ? 'inactive' : 'unknown_supplier')
    const isLate = performance.now() + lag > deadline
    if (isLate || this.sliced >= maxSliced) return refuse('overload')
    const pricing = engine.priceAgentCall(ssp, call)
    if (pricing === null) return refuse('disabled')
    const { bids, modelVersion } = pricing
    const mutations: Mutation[] = []
    const isDone = priceSome(bids, mutations, turn)
    if (!isDone) return this.priceRest(ssp, { mutations, modelVersion }, bids, deadline)
    metrics.priced(ssp, mutations.length)
    return { mutations, modelVersion }
  }

  private async priceRest(
    ssp: string,
    prices: AgentPrices & { mutations: Mutation[] },
    bids: Iterator<Mutation | null>,
    deadline: number,
  ): Promise<AgentPrices> {
    const { metrics, turn } = this.deps
    this.sliced++
    try {
      for (let isDone = false; !isDone; isDone = priceSome(bids, prices.mutations, turn)) {
        await turn.next()
        // What was priced so far is sent: those bids are recorded.
        if (performance.now() <= deadline) continue
        metrics.cut(ssp)
        break
      }
    } finally {
      this.sliced--
    }
    metrics.priced(ssp, prices.mutations.length)
    return prices
  }
}

/** Prices bids until the turn is spent, at least one. True: those were all. */
function priceSome(
  bids: Iterator<Mutation | null>,
  mutations: Mutation[],
  turn: LoopTurn,
): boolean {
  for (;;) {
    const { value, done } = bids.next()
    if (done === true) return true
    if (value !== null) mutations.push(value)
    if (turn.isSpent) return false
  }
}
