/** Counters of the agent listener, and the duration of its calls. */
import type { Registry } from 'prom-client'
import { type AgentReason, agentReasons } from '../../opd/agent/agent.ts'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { counter, histogram, others, registerRows } from '../../opd/base/metrics.ts'

/** Seconds. The bounds that exchanges ask of an agent's histogram. */
const bounds = [0.0025, 0.005, 0.01, 0.025, 0.05]

interface SupplierCounts {
  /** Calls whose answer has a mutation, and calls of which every bid keeps its price. */
  priced: number
  unchanged: number
  mutations: number
  /** Calls whose deadline passed while their bids were priced. */
  cut: number
  refused: Record<AgentReason, number>
}

const noCounts = (): SupplierCounts => ({
  priced: 0,
  unchanged: 0,
  mutations: 0,
  cut: 0,
  refused: Object.fromEntries(agentReasons.map((reason) => [reason, 0])) as Record<
    AgentReason,
    number
  >,
})

/** Counters of agent calls. */
export class AgentMetrics {
  private readonly counts = new Map<string, SupplierCounts>()
  private readonly buckets = new Float64Array(bounds.length + 1)
  private seconds = 0

  constructor(registry: Registry) {
    registerRows(registry, [
      counter(
        'bidweir_agent_calls_total',
        'Calls of exchanges, over gRPC and MCP, by supplier and outcome; _other: no supplier of that name',
        () => this.calls(),
      ),
      counter('bidweir_agent_mutations_total', 'Prices of bids that agent calls changed', () =>
        [...this.counts].map(([ssp, { mutations }]) => ({ value: mutations, labels: { ssp } })),
      ),
      counter(
        'bidweir_agent_cut_total',
        'Agent calls whose deadline passed before all bids were priced; the answer has those that were',
        () => [...this.counts].map(([ssp, { cut }]) => ({ value: cut, labels: { ssp } })),
      ),
      histogram(
        'bidweir_agent_duration_seconds',
        'Time from an agent call to its answer (rpc.server.duration of OpenTelemetry)',
        () => this.durations(),
      ),
    ])
  }

  priced(ssp: string, mutations: number): void {
    const counts = this.countsOf(ssp)
    if (mutations > 0) counts.priced++
    else counts.unchanged++
    counts.mutations += mutations
  }

  cut(ssp: string): void {
    this.countsOf(ssp).cut++
  }

  /** `ssp`: empty if the call names no supplier of the configuration, so that callers cannot add series. */
  refused(ssp: string, reason: AgentReason): void {
    this.countsOf(ssp).refused[reason]++
  }

  /** `ms`: milliseconds. */
  answered(ms: number): void {
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < bounds.length && seconds > bounds[bucket]!) bucket++
    this.buckets[bucket]!++
    this.seconds += seconds
  }

  private countsOf(ssp: string): SupplierCounts {
    return getOrAdd(this.counts, ssp === '' ? others : ssp, noCounts)
  }

  private *calls() {
    for (const [ssp, { priced, unchanged, refused }] of this.counts)
      for (const [outcome, value] of Object.entries({ priced, unchanged, ...refused }))
        if (value > 0) yield { value, labels: { ssp, outcome } }
  }

  private *durations() {
    const name = 'bidweir_agent_duration_seconds'
    let count = 0
    for (const [index, bound] of [...bounds, '+Inf'].entries()) {
      count += this.buckets[index]!
      yield { value: count, labels: { le: bound }, metricName: `${name}_bucket` }
    }
    yield { value: this.seconds, labels: {}, metricName: `${name}_sum` }
    yield { value: count, labels: {}, metricName: `${name}_count` }
  }
}
