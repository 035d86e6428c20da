/** Metrics whose samples are computed at a scrape. Nothing is updated between two scrapes but plain numbers. */
import type { Metric, Registry } from 'prom-client'
import type { NativeHistogram } from './buckets.ts'

export type Labels = Record<string, string | number>

export interface Sample {
  value: number
  labels: Labels
  /** The name of the series, if it differs from that of the metric, such as `…_bucket`. */
  metricName?: string
  /** Of the series `…_count` of a histogram: the same values as a native histogram, for a scraper that asks for them. */
  native?: NativeHistogram
}

/** The `ssp` of a series that suppliers share. It is never a supplier's id: ids begin with a letter or a digit. */
export const others = '_other'

/** Suppliers that have all series, the busiest ones if there are more. This bounds the size of a scrape. */
export const maxSuppliers = 300

/**
 * Yields null after each element: the counts of thousands of suppliers take several slices of a scrape.
 *
 * @param all in any order; read once
 * @param countOf is called once for each element
 */
export function* busiest<T>(
  all: Iterable<T>,
  countOf: (item: T) => number,
  limit = maxSuppliers,
): Generator<null, Set<T>> {
  const counted: { item: T; count: number }[] = []
  for (const item of all) {
    counted.push({ item, count: countOf(item) })
    yield null
  }
  if (counted.length > limit) counted.sort((one, other) => other.count - one.count)
  return new Set(counted.slice(0, limit).map(({ item }) => item))
}

/** A sum by supplier and mode. The values of suppliers without a series of their own are added in the series `_other` of their mode. */
export class FoldedSum<T extends object> {
  private readonly value: (item: T) => number
  /** Values at the last scrape. */
  private readonly seen = new WeakMap<T, number>()
  private readonly rest = new Map<string, { value: number; labels: Labels }>()

  constructor(value: (item: T) => number) {
    this.value = value
  }

  /**
   * null: not a sample, but a point at which a slice may end.
   *
   * @param rows the same objects at each scrape, with labels that have `mode`; null is passed on
   * @param separate those with a series of their own
   * @param metricName in place of the name of the metric
   */
  *samples(
    rows: Iterable<readonly [T, Labels] | null>,
    separate: ReadonlySet<T>,
    metricName?: string,
  ): Generator<Sample | null> {
    const name = metricName === undefined ? {} : { metricName }
    for (const row of rows) {
      if (row === null) yield null
      else {
        const [item, labels] = row
        const value = this.value(item)
        if (separate.has(item)) yield { value, labels, ...name }
        else this.addToRest(labels, value - (this.seen.get(item) ?? 0))
        this.seen.set(item, value)
      }
    }
    for (const shared of this.rest.values()) yield { ...shared, ...name }
  }

  private addToRest(labels: Labels, value: number): void {
    const mode = String(labels['mode'])
    const before = this.rest.get(mode)
    if (before === undefined) this.rest.set(mode, { value, labels: { ...labels, ssp: others } })
    else before.value += value
  }
}

export type MetricRow = [
  name: string,
  kind: 'counter' | 'gauge' | 'histogram' | 'summary',
  help: string,
  /** Called at a scrape. null is not a sample: it ends a piece of work, after which a scrape may yield. */
  samples: () => Iterable<Sample | null>,
]

const rowOf =
  (kind: MetricRow[1]) =>
  (name: string, help: string, samples: MetricRow[3]): MetricRow => [name, kind, help, samples]
/** The row of a counter. */
export const counter = rowOf('counter')
/** The row of a gauge. */
export const gauge = rowOf('gauge')
/** The row of a histogram, whose samples name their series (`…_bucket`, `…_sum`, `…_count`). */
export const histogram = rowOf('histogram')
/** The row of a summary, whose samples name their series (`…_sum`, `…_count`). */
export const summary = rowOf('summary')

/**
 * The samples of a metric with one series.
 *
 * @param value in the unit that the name of the metric ends with
 * @param labels none if absent
 */
export const one = (value: number, labels: Labels = {}): Sample[] => [{ value, labels }]

/**
 * Samples of a metric with one label.
 *
 * @param label its name
 * @param values pairs of the value of the label and of the sample
 */
export const byLabel = (label: string, values: Iterable<readonly [string, number]>): Sample[] =>
  [...values].map(([name, value]) => ({ value, labels: { [label]: name } }))

/**
 * The same, with a value for each of some names.
 *
 * @param label its name
 * @param names values of the label, in the order of `/metrics`
 * @param value the sample of a name, called at each scrape
 */
export const byName = <N extends string>(
  label: string,
  names: readonly N[],
  value: (name: N) => number,
): Sample[] => names.map((name) => ({ value: value(name), labels: { [label]: name } }))

/** A metric of a registry. Only those of `registerRows` have `samples`. */
export interface RegisteredMetric {
  name: string
  help: string
  type: string
  labelNames?: string[]
  get(): Promise<{
    name: string
    type: string | number
    values?: (Sample & { sharedLabels?: Labels })[]
  }>
  samples?: () => Iterable<Sample | null>
}

/**
 * prom-client declares that the array has other objects than the metrics themselves.
 *
 * @param registry of this process
 */
export const metricsOf = (registry: Registry): RegisteredMetric[] =>
  registry.getMetricsAsArray() as unknown as RegisteredMetric[]

/**
 * Registers the rows. prom-client calls `get`, which returns all samples at once; the text of `/metrics` is rendered
 * from `samples`, in slices.
 *
 * @param registry must not have a metric of the same name
 * @param rows are read at each scrape
 */
export function registerRows(registry: Registry, rows: readonly MetricRow[]): void {
  for (const [name, type, help, samples] of rows) {
    const shape = { name, help, type, aggregator: 'sum' as const }
    const metric: RegisteredMetric & { reset(): void } = {
      ...shape,
      samples,
      get: async () => ({ ...shape, values: [...samples()].filter((sample) => sample !== null) }),
      reset: () => {},
    }
    // The registry calls `get` and `reset` alone; the declared type is that of prom-client's own classes.
    registry.registerMetric(metric as unknown as Metric)
  }
}
