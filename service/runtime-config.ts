/** What components need to know of the checked configuration. */
import { type OpdConfig, opdSchema } from '../opd/config.ts'
import { rateOf } from '../opd/shared/rates.ts'
import type { Config, SupplierConfig } from './config/schema.ts'
import { valueAt } from './config/values.ts'
import { workerCount } from './workers/limits.ts'

const day = 86_400_000

/** Milliseconds that ledger rows are kept. A win that may be reported again still has its row. */
export const retentionMs = ({ store, opd }: Config) =>
  Math.max(store.retentionDays * day, opd.contextTtl + day)

/** What reports need: each supplier's notices, and exchange rates. */
export function reportSettings(config: Config) {
  const { base, rates = null } = config.currency
  const currencies = new Set([base, ...Object.keys(rates?.rates ?? {})])
  return {
    base,
    notices: Object.fromEntries(config.suppliers.map(({ id, notices }) => [id, notices])),
    rates: Object.fromEntries(
      [...currencies].flatMap((currency) => {
        const rate = rateOf(currency, rates, base)
        return rate === null ? [] : [[currency, rate]]
      }),
    ),
  }
}

/** Rates older than this are alerted (CONTRACT 2). */
const staleAfter = 24 * 3_600_000

/** Milliseconds since the rates were made; null if they have no `asOf`. */
export function ratesAge(config: Config, now: number): { age: number; stale: boolean } | null {
  const asOf = config.currency.rates?.asOf
  if (asOf === undefined) return null
  const age = now - Date.parse(asOf)
  return { age, stale: age > staleAfter }
}

/** The suppliers as the management API lists them: names default to the id, without account only `*` sees them. */
export function listedSuppliers(config: Config) {
  return config.suppliers.map(({ id, name, name_external, account }) => ({
    id,
    name: name ?? id,
    name_external: name_external ?? name ?? id,
    account: account ?? null,
  }))
}

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

const maxExplore = 0.2
const defaultTargetMargin = opdSchema.parse({}).targetMargin

/** Values of an `opd` block that are valid but rarely intended. */
const opdWarnings: readonly [(opd: OpdConfig) => boolean, string][] = [
  [
    ({ holdout, minWinRate, minSpend }) => holdout === 0 && (minWinRate > 0 || minSpend > 0),
    'holdout is 0: minWinRate and minSpend have nothing to be measured against',
  ],
  [
    ({ mode, targetMargin }) => mode === 'revenue' && targetMargin !== defaultTargetMargin,
    'targetMargin is set, but only mode: margin reads it',
  ],
  [
    ({ explore }) => explore > maxExplore,
    `explore is above ${maxExplore}: that share of bids is priced at random`,
  ],
  [({ share }) => share === 0, 'share is 0: no bid is priced'],
]

const opdWarningsOf = ({ id, opd }: SupplierConfig) =>
  opd === undefined || opd.enabled === false
    ? []
    : opdWarnings.filter(([meets]) => meets(opd)).map(([, text]) => `suppliers ${id}: opd.${text}`)

/** A limit below the number of processes is not kept: each of them has 1 at least. */
const limitWarningsOf = ({ proxy, suppliers }: Config, count = workerCount(proxy)) =>
  suppliers.flatMap(({ id, maxInFlight }) =>
    maxInFlight !== 'auto' && maxInFlight < count
      ? [`suppliers ${id}: maxInFlight is less than proxy.workers: ${count} are permitted`]
      : [],
  )

/** Warnings about values that are valid but rarely intended. */
export function warningsOf(config: Config): string[] {
  const isPublic = !/^(127\.|localhost:|\[::1\])/.test(config.proxy.listen)
  const routes = config.suppliers.flatMap(({ id, endpoints, callers, opd }) => {
    if (endpoints.length === 0)
      return opd === undefined
        ? [`suppliers ${id}: neither endpoints nor opd: nothing can be asked of it`]
        : []
    const anyone = callers.cidrs.length === 0 && Object.keys(callers.headers).length === 0
    return isPublic && anyone
      ? [`suppliers ${id}: callers is empty and proxy.listen is not loopback: anyone may send bids`]
      : []
  })
  return [...routes, ...config.suppliers.flatMap(opdWarningsOf), ...limitWarningsOf(config)]
}

/** Milliseconds that a bid is kept in Redis; 0: none is written. */
export function sharedBidTtl({ opd, admin }: Config): number {
  const { when, ttl } = opd.bidLog
  const writes = when === 'always' || (when === 'bareOnly' && admin.impressions.auth !== 'context')
  return writes ? ttl : 0
}
