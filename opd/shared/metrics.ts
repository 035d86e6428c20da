/** Metrics whose samples are computed at a scrape. Nothing is updated between two scrapes but plain numbers. */
import type { Metric, Registry } from 'prom-client'

export type Labels = Record<string, string | number>

export interface Sample {
  value: number
  labels: Labels
  /** The name of the series, if it differs from that of the metric, such as `…_bucket`. */
  metricName?: string
}

export type MetricRow = [
  name: string,
  kind: 'counter' | 'gauge' | 'histogram' | 'summary',
  help: string,
  /** Called at a scrape. null is not a sample: it ends a piece of work, after which a scrape may yield. */
  samples: () => Iterable<Sample | null>,
]

/** The samples of a metric with one series. */
export const one = (value: number, labels: Labels = {}): Sample[] => [{ value, labels }]

/** Samples of a metric with one label. */
export const byLabel = (label: string, values: Iterable<readonly [string, number]>): Sample[] =>
  [...values].map(([name, value]) => ({ value, labels: { [label]: name } }))

/**
 * Registers the rows. prom-client calls `get`, which returns all samples at once; the text of `/metrics` is rendered
 * from `samples`, in slices.
 */
export function registerRows(registry: Registry, rows: readonly MetricRow[]): void {
  for (const [name, type, help, samples] of rows) {
    const shape = { name, help, type, aggregator: 'sum' as const }
    const metric = {
      ...shape,
      samples,
      get: async () => ({ ...shape, values: [...samples()].filter((sample) => sample !== null) }),
      reset: () => {},
    }
    registry.registerMetric(metric as unknown as Metric)
  }
}
