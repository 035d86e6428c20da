/** Metrics of the configuration: what the last reload came to, and whether a change waits for a restart. */
import { Counter, type Registry } from 'prom-client'
import { gauge, one, registerRows } from '../../opd/shared/metrics.ts'

export interface ReloadState {
  /** Whether the last reload was taken. */
  successful: boolean
  /** The changed keys that take effect only after a restart. */
  restart: readonly string[]
}

interface ReloadMeter {
  state(): ReloadState
  refused(): void
  /** `waiting`: the changed keys that take effect only after a restart. */
  taken(waiting: readonly string[]): void
}

export function createReloadMeter(registry: Registry): ReloadMeter {
  const reloads = new Counter({
    name: 'bidweir_config_reloads_total',
    help: 'Reloads of the configuration, by result',
    labelNames: ['result'],
    registers: [registry],
  })
  // An alert on an increase needs the value before the first reload.
  for (const result of ['taken', 'refused']) reloads.inc({ result }, 0)
  let successful = true
  let takenAt = Date.now()
  let restart: readonly string[] = []
  registerRows(registry, [
    gauge(
      'bidweir_config_last_reload_successful',
      '0 while the configuration file is one that was refused; the last good one is in use',
      () => one(Number(successful)),
    ),
    gauge(
      'bidweir_config_last_reload_success_timestamp_seconds',
      'Unix time at which the configuration in use was loaded',
      () => one(takenAt / 1000),
    ),
    gauge(
      'bidweir_restart_needed',
      '1 while a change of the configuration file waits for a restart',
      () => one(Number(restart.length > 0)),
    ),
  ])
  return {
    state: () => ({ successful, restart }),
    refused() {
      successful = false
      reloads.inc({ result: 'refused' })
    },
    taken(waiting) {
      successful = true
      takenAt = Date.now()
      restart = waiting
      reloads.inc({ result: 'taken' })
    },
  }
}
