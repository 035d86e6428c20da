/** Metrics of the models that this node keeps. Read at a scrape, nothing on the hot path. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Exchange } from './opd/state/exchange.ts'
import { type Keeper, modes } from './opd/state/keeper.ts'

export interface ModelParts {
  keeper: Keeper
  /** null: this node is alone. */
  exchange: Exchange | null
}

type Samples = () => [labels: Record<string, string>, value: number][]

/** Counts that live elsewhere, shown as they stand. */
function shown(
  registry: Registry,
  Kind: typeof Counter | typeof Gauge,
  name: string,
  help: string,
  label: string | null,
  samples: Samples,
): void {
  new Kind({
    name,
    help,
    labelNames: label === null ? [] : [label],
    registers: [registry],
    collect() {
      this.reset()
      for (const [labels, value] of samples()) this.inc(labels, value)
    },
  })
}

const results = ['sent', 'merged', 'seen', 'old', 'refused', 'dropped'] as const

export function modelMetrics(registry: Registry, parts: ModelParts): void {
  const { keeper, exchange } = parts
  shown(
    registry,
    Counter,
    'bidweir_model_snapshots_refused_total',
    'Snapshots that were damaged: the one before served, or learning started afresh',
    null,
    () => [[{}, keeper.failures.refused]],
  )
  shown(
    registry,
    Counter,
    'bidweir_model_snapshot_writes_failed_total',
    'Snapshots that could not be written',
    null,
    () => [[{}, keeper.failures.writes]],
  )
  shown(registry, Gauge, 'bidweir_model_frozen', '1: it decides and does not learn', null, () => [
    [{}, keeper.control.frozen.is ? 1 : 0],
  ])
  shown(
    registry,
    Gauge,
    'bidweir_model_epoch_seconds',
    'When the model was last rolled back, Unix time; 0: never',
    'mode',
    () => modes.map((mode) => [{ mode }, keeper.control.epochs[mode] / 1000]),
  )
  shown(
    registry,
    Counter,
    'bidweir_model_outcomes_stale_total',
    'Wins of exposures from before a rollback: not taught',
    'mode',
    () => modes.map((mode) => [{ mode }, keeper.of(mode).counts.stale]),
  )
  shown(
    registry,
    Counter,
    'bidweir_model_outcomes_lost_total',
    'Wins while frozen that found no room to wait: not taught',
    'mode',
    () => modes.map((mode) => [{ mode }, keeper.of(mode).counts.unheld]),
  )
  if (exchange !== null)
    shown(
      registry,
      Counter,
      'bidweir_model_deltas_total',
      'Deltas between nodes, by what became of them',
      'result',
      () => results.map((result) => [{ result }, exchange.counts[result]]),
    )
}
