/** Metrics of the models of this node: operator commands, damaged snapshots, and what it exchanges with other nodes. */
import type { Registry } from 'prom-client'
import { modes } from '../../opd/pricing/arms.ts'
import { byLabel, byName, counter, gauge, one, registerRows } from '../../opd/shared/metrics.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'
import type { ModelSync } from '../../opd/state/model-sync.ts'

export function modelMetrics(registry: Registry, modelManager: ModelManager): void {
  const byMode = (value: (mode: (typeof modes)[number]) => number) => byName('mode', modes, value)
  registerRows(registry, [
    counter(
      'bidweir_model_snapshots_refused_total',
      'Damaged snapshots; an older one was loaded, or the model started empty',
      () => one(modelManager.failures.refused),
    ),
    gauge('bidweir_model_frozen', '1 while the model decides but does not learn', () =>
      one(Number(modelManager.control.frozen)),
    ),
    gauge(
      'bidweir_model_epoch_seconds',
      'Unix time of the last rollback of the model; 0 if there was none',
      () => byMode((mode) => (modelManager.control.rolledBackAt[mode] ?? 0) / 1000),
    ),
    counter(
      'bidweir_model_outcomes_stale_total',
      'Wins of bids from before a rollback; they do not train the model',
      () => byMode((mode) => modelManager.of(mode).counts.stale),
    ),
    counter(
      'bidweir_model_outcomes_lost_total',
      'Wins that did not fit into the buffer of a frozen model; they do not train it',
      () => byMode((mode) => modelManager.of(mode).counts.overflowed),
    ),
  ])
}

const deltaResults = ['sent', 'merged', 'refused', 'old', 'seen', 'dropped', 'lost'] as const

export function modelSyncMetrics(registry: Registry, modelSync: ModelSync): void {
  registerRows(registry, [
    counter(
      'bidweir_model_deltas_total',
      'Model updates between nodes: sent; received and merged, refused as damaged, of an old epoch, or seen before; dropped unsent; lost with a node that ended',
      () => {
        const { counts } = modelSync
        return byName('result', deltaResults, (result) => counts[result])
      },
    ),
    counter(
      'bidweir_model_shared_total',
      'Models that this node wrote for the others, or took from them because it lacked updates; curves that it wrote, or adopted',
      () => {
        const { shared, taken, curvesShared, curvesAdopted } = modelSync.counts
        return byLabel('result', [
          ['written', shared],
          ['taken', taken],
          ['curve_written', curvesShared],
          ['curve_adopted', curvesAdopted],
        ])
      },
    ),
  ])
}
