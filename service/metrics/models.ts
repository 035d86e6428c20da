/** Metrics of what operators and disks do to the models of this node. Read at a scrape, nothing on the hot path. */
import { Counter, Gauge, type Registry } from 'prom-client'
import { modes } from '../../opd/pricing/arms.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'

type Kind = typeof Counter | typeof Gauge
type Samples = (modelManager: ModelManager) => [labels: Record<string, string>, value: number][]

const byMode = (of: (mode: (typeof modes)[number]) => number): ReturnType<Samples> =>
  modes.map((mode) => [{ mode }, of(mode)])

const metrics: readonly [Kind, name: string, help: string, labels: string[], Samples][] = [
  [
    Counter,
    'bidweir_model_snapshots_refused_total',
    'Snapshots that were damaged: the one before served, or learning started afresh',
    [],
    ({ failures }) => [[{}, failures.refused]],
  ],
  [
    Gauge,
    'bidweir_model_frozen',
    '1: it decides and does not learn',
    [],
    ({ control }) => [[{}, Number(control.frozen)]],
  ],
  [
    Gauge,
    'bidweir_model_epoch_seconds',
    'When the model was last rolled back, Unix time; 0: never',
    ['mode'],
    ({ control }) => byMode((mode) => (control.rolledBackAt[mode] ?? 0) / 1000),
  ],
  [
    Counter,
    'bidweir_model_outcomes_stale_total',
    'Wins of exposures from before a rollback: not taught',
    ['mode'],
    (modelManager) => byMode((mode) => modelManager.of(mode).counts.stale),
  ],
  [
    Counter,
    'bidweir_model_outcomes_lost_total',
    'Wins while frozen that found no room to wait: not taught',
    ['mode'],
    (modelManager) => byMode((mode) => modelManager.of(mode).counts.overflowed),
  ],
]

/** Registers the metrics of the model manager. */
export function modelMetrics(registry: Registry, modelManager: ModelManager): void {
  for (const [Kind, name, help, labelNames, samples] of metrics)
    new Kind({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset()
        for (const [labels, value] of samples(modelManager)) this.inc(labels, value)
      },
    })
}
