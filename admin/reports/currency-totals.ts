/**
 * The money of one report group: summed by currency and converted once, so that the result does not depend on the
 * order of the rows.
 */
import {
  type Decimal,
  decimal,
  decimalText,
  dividedBy,
  minus,
  plus,
  signedDecimal,
  zero,
} from '../../opd/shared/decimal.ts'
import type { Money } from './report-query.ts'

interface CurrencyTotal {
  wins: number
  cleared: Decimal
  out: Decimal
  margin: Decimal
}

/** Totals by currency. */
export type CurrencyTotals = Map<string, CurrencyTotal>

const emptyTotal = (): CurrencyTotal => ({ wins: 0, cleared: zero, out: zero, margin: zero })

export function addMoney(
  totals: CurrencyTotals,
  currency: string,
  wins: number,
  money: { cleared: string; out: string; margin: string },
): void {
  const total = totals.get(currency) ?? emptyTotal()
  totals.set(currency, total)
  total.wins += wins
  total.cleared = plus(total.cleared, signedDecimal(money.cleared))
  total.out = plus(total.out, signedDecimal(money.out))
  total.margin = plus(total.margin, signedDecimal(money.margin))
}

const moneyOf = ({ cleared, out, margin }: CurrencyTotal): Money => ({
  revenue: decimalText(plus(cleared, margin)),
  cleared: decimalText(cleared),
  out_ba: decimalText(out),
  margin: decimalText(margin),
  difference: decimalText(minus(cleared, out)),
})

/** Converts into the base currency; `rate` is units of the currency for one unit of the base. */
const inBase = (money: Decimal, rate: number): Decimal =>
  rate === 1 || money.digits === 0n ? money : dividedBy(money, decimal(String(rate))!)

/** Converts the totals that have a rate into the base currency, and lists the others each in its own currency. */
export function convertTotals(
  totals: CurrencyTotals,
  rateOf: (currency: string) => number | null,
): Money & { no_rate: Record<string, Money & { wins: number }> } {
  const base = emptyTotal()
  const rest: [string, Money & { wins: number }][] = []
  for (const [currency, total] of totals) {
    const rate = rateOf(currency)
    if (rate === null) rest.push([currency, { wins: total.wins, ...moneyOf(total) }])
    else
      for (const name of ['cleared', 'out', 'margin'] as const)
        base[name] = plus(base[name], inBase(total[name], rate))
  }
  rest.sort(([one], [other]) => (one < other ? -1 : 1))
  return { ...moneyOf(base), no_rate: Object.fromEntries(rest) }
}
