/** Metrics of model control and snapshots on this node. Computed at a scrape; nothing runs on the hot path. */
import { Counter, Gauge, type Registry } from 'prom-client'
import { type Keeper, modes } from '../../opd/state/model-manager.ts'

type Kind = typeof Counter | typeof Gauge
type Samples = (keeper: Keeper) => [labels: Record<string, string>, value: number][]

const byMode = (of: (mode: (typeof modes)[number]) => number): ReturnType<Samples> =>
  modes.map((mode) => [{ mode }, of(mode)])

const metrics: readonly [Kind, name: string, help: string, labels: string[], Samples][] = [
  [
    Counter,
    'bidweir_model_snapshots_refused_total',
    'Damaged snapshots; the one before was used, or learning started anew',
    [],
    ({ failures }) => [[{}, failures.refused]],
  ],
  [
    Gauge,
    'bidweir_model_frozen',
    '1 while the model decides but does not learn',
    [],
    ({ control }) => [[{}, Number(control.frozen)]],
  ],
  [
    Gauge,
    'bidweir_model_epoch_seconds',
    'Unix time of the last rollback of the model; 0 if there was none',
    ['mode'],
    ({ control }) => byMode((mode) => (control.rolledBackAt[mode] ?? 0) / 1000),
  ],
  [
    Counter,
    'bidweir_model_outcomes_stale_total',
    'Wins of bids from before a rollback; they do not train the model',
    ['mode'],
    (keeper) => byMode((mode) => keeper.of(mode).counts.stale),
  ],
  [
    Counter,
    'bidweir_model_outcomes_lost_total',
    'Wins that did not fit into the buffer of a frozen model; they do not train it',
    ['mode'],
    (keeper) => byMode((mode) => keeper.of(mode).counts.unheld),
  ],
]

/** Registers the counts of the model manager. */
export function modelMetrics(registry: Registry, keeper: Keeper): void {
  for (const [Kind, name, help, labelNames, samples] of metrics)
    new Kind({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset()
        for (const [labels, value] of samples(keeper)) this.inc(labels, value)
      },
    })
}
