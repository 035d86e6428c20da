/** Metrics that prom-client has of each process, as those of one. */
import { AggregatorRegistry, type Registry } from 'prom-client'

interface ProcessMetric {
  name: string
  type: string | number
  values?: object[]
}

export type ProcessMetrics = ProcessMetric[]

export const isOfProcess = ({ name }: { name: string }) => /^(process|nodejs)_/.test(name)
const isCounted = ({ type }: ProcessMetric) => type === 'counter' || type === 'histogram'

/** By the aggregators of prom-client: sums, and for some gauges mean, least or largest. */
export const aggregated = (all: ProcessMetrics[]): Registry => AggregatorRegistry.aggregate(all)

/** The metrics of processes by slot. What a process that ended has counted stays, or counters would fall. */
export class ProcessMetricsBySlot {
  private readonly last = new Map<number, ProcessMetrics>()
  private ended: ProcessMetrics = []

  set(index: number, metrics: ProcessMetrics): void {
    this.last.set(index, metrics)
  }

  end(index: number): void {
    const metrics = this.last.get(index)
    this.last.delete(index)
    if (metrics === undefined) return
    const all = [this.ended, metrics.filter(isCounted)]
    void aggregated(all)
      .getMetricsAsJSON()
      .then((sum) => {
        this.ended = sum
      })
  }

  all(): ProcessMetrics[] {
    return [...this.last.values(), this.ended]
  }
}
