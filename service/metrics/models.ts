/** Metrics of operator commands and damaged snapshots: what they do to the models of this node. */
import type { Registry } from 'prom-client'
import { byLabel, one, registerRows } from '../../opd/shared/metrics.ts'
import { type ModelManager, modes } from '../../opd/state/model-manager.ts'

export function modelMetrics(registry: Registry, modelManager: ModelManager): void {
  const byMode = (value: (mode: (typeof modes)[number]) => number) =>
    byLabel(
      'mode',
      modes.map((mode) => [mode, value(mode)]),
    )
  registerRows(registry, [
    [
      'bidweir_model_snapshots_refused_total',
      'counter',
      'Snapshots that were damaged: the one before served, or learning started afresh',
      () => one(modelManager.failures.refused),
    ],
    [
      'bidweir_model_frozen',
      'gauge',
      '1: it decides and does not learn',
      () => one(Number(modelManager.control.frozen)),
    ],
    [
      'bidweir_model_epoch_seconds',
      'gauge',
      'When the model was last rolled back, Unix time; 0: never',
      () => byMode((mode) => (modelManager.control.rolledBackAt[mode] ?? 0) / 1000),
    ],
    [
      'bidweir_model_outcomes_stale_total',
      'counter',
      'Wins of exposures from before a rollback: not taught',
      () => byMode((mode) => modelManager.of(mode).counts.stale),
    ],
    [
      'bidweir_model_outcomes_lost_total',
      'counter',
      'Wins while frozen that found no room to wait: not taught',
      () => byMode((mode) => modelManager.of(mode).counts.overflowed),
    ],
  ])
}
