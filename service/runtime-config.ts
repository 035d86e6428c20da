/** Values that components need, derived from the checked configuration. */
import { rateOf } from '../opd/shared/rates.ts'
import type { Config } from './config/schema.ts'

const day = 86_400_000

/**
 * Milliseconds that ledger rows are kept. A win that may be reported again still has its row.
 *
 * @param config `retentionDays` in days, `contextTtl` in milliseconds
 */
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

/** Milliseconds that a bid is kept in Redis; 0: none is written. */
export function sharedBidTtl({ opd, admin, agent }: Config): number {
  const { when, ttl } = opd.bidLog
  // Bids of agent calls have no context.
  const comeBare = admin.impressions.auth !== 'context' || agent !== null
  const writes = when === 'always' || (when === 'bareOnly' && comeBare)
  return writes ? ttl : 0
}
