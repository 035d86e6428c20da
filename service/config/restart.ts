/** Which changes of the configuration a reload cannot apply. */
import type { Config } from './schema.ts'
import { valueAt } from './values.ts'

/**
 * `presence`: a reload may replace the value, but neither add nor remove it. `firstStart`: a key below, which only the very
 * first start reads.
 */
interface RestartKey {
  key: string
  compare: 'value' | 'presence'
  firstStart?: string
}

/** Keys that a reload cannot change (CONTRACT 2). */
export const restartKeys: readonly RestartKey[] = [
  { key: 'location', compare: 'value' },
  { key: 'stateDir', compare: 'value' },
  { key: 'proxy.listen', compare: 'value' },
  { key: 'proxy.tls', compare: 'presence' },
  { key: 'proxy.workers', compare: 'value' },
  { key: 'proxy.fastLane', compare: 'value' },
  { key: 'admin.listen', compare: 'value' },
  { key: 'admin.auth', compare: 'value', firstStart: 'admin.auth.embedded.adminPassword' },
  { key: 'admin.impressions', compare: 'value' },
  { key: 'notices', compare: 'value' },
  { key: 'agent', compare: 'value' },
  { key: 'store', compare: 'value' },
  { key: 'opd.attributionWindow', compare: 'value' },
  { key: 'opd.decisionLog', compare: 'value' },
  { key: 'node', compare: 'value' },
  { key: 'models', compare: 'value' },
  { key: 'events', compare: 'value' },
]

/**
 * The changed keys that take effect only after a restart.
 *
 * @param before the configuration with which the process started
 * @param after the one that is applied
 * @returns keys as in the file, with dots
 */
export function needsRestart(before: Config, after: Config): string[] {
  return restartKeys
    .filter(({ key, compare, firstStart }) => {
      const [one, other] = [before, after].map((config) => valueAt(config, key.split('.')))
      if (compare === 'presence') return (one === undefined) !== (other === undefined)
      // The replacer of JSON.stringify sees the last name of a path, which occurs once below each key.
      const skipped = firstStart?.split('.').at(-1)
      const text = (value: unknown) =>
        JSON.stringify(value, (name, inner: unknown) => (name === skipped ? undefined : inner))
      return text(one) !== text(other)
    })
    .map(({ key }) => key)
}
