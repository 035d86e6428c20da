/** Which changes of the configuration a reload cannot apply. */
import type { Config } from './schema.ts'
import { valueAt } from './values.ts'

/**
 * Keys that a reload cannot change (CONTRACT 2). `presence`: a reload may replace the value, but neither add nor remove it.
 */
export const restartKeys: readonly { key: string; compare: 'value' | 'presence' }[] = [
  { key: 'location', compare: 'value' },
  { key: 'stateDir', compare: 'value' },
  { key: 'proxy.listen', compare: 'value' },
  { key: 'proxy.tls', compare: 'presence' },
  { key: 'proxy.workers', compare: 'value' },
  { key: 'proxy.fastLane', compare: 'value' },
  { key: 'admin.listen', compare: 'value' },
  { key: 'admin.auth', compare: 'value' },
  { key: 'admin.impressions', compare: 'value' },
  { key: 'notices', compare: 'value' },
  { key: 'store', compare: 'value' },
  { key: 'opd.attributionWindow', compare: 'value' },
  { key: 'opd.decisionLog', compare: 'value' },
  { key: 'node', compare: 'value' },
  { key: 'events', compare: 'value' },
  { key: 'log', compare: 'value' },
]

/** The changed keys that take effect only after a restart. */
export function needsRestart(before: Config, after: Config): string[] {
  return restartKeys
    .filter(({ key, compare }) => {
      const [one, other] = [before, after].map((config) => valueAt(config, key.split('.')))
      return compare === 'presence'
        ? (one === undefined) !== (other === undefined)
        : JSON.stringify(one) !== JSON.stringify(other)
    })
    .map(({ key }) => key)
}
