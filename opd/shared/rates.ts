/** Exchange rates: units of the currency for one unit of the base. */
export interface Rates {
  base: string
  rates: Readonly<Record<string, number>>
}

const perUnit = (currency: string, { base, rates }: Rates): number | null => {
  if (currency === base) return 1
  const rate = Object.hasOwn(rates, currency) ? rates[currency]! : Number.NaN
  return rate > 0 && Number.isFinite(rate) ? rate : null
}

/**
 * Units of `currency` for one unit of `base`; null: no rate is known. `rates` may have another base.
 *
 * @param currency ISO 4217, upper case
 */
export function rateOf(currency: string, rates: Rates | null, base: string): number | null {
  if (currency === base) return 1
  if (rates === null) return null
  const [rate, baseRate] = [perUnit(currency, rates), perUnit(base, rates)]
  return rate === null || baseRate === null ? null : rate / baseRate
}
