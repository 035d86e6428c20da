/** The money of one group: kept by currency, converted once, so that how it was read makes no last digit. */
import { type Exact, exact, inBase, minus, plus, text, zero } from './exact.ts'

export interface Money {
  /** Exact decimal text, CPM. */
  revenue: string
  cleared: string
  out_ba: string
  margin: string
  /** Cleared less out_ba. */
  difference: string
}

interface Purse {
  wins: number
  cleared: Exact
  out: Exact
  margin: Exact
}

/** By currency. */
export type Purses = Map<string, Purse>

const noMoney = (): Purse => ({ wins: 0, cleared: zero, out: zero, margin: zero })

export function addMoney(
  purses: Purses,
  currency: string,
  wins: number,
  money: { cleared: string; out: string; margin: string },
): void {
  const purse = purses.get(currency) ?? noMoney()
  purses.set(currency, purse)
  purse.wins += wins
  purse.cleared = plus(purse.cleared, exact(money.cleared))
  purse.out = plus(purse.out, exact(money.out))
  purse.margin = plus(purse.margin, exact(money.margin))
}

const moneyOf = ({ cleared, out, margin }: Purse): Money => ({
  revenue: text(plus(cleared, margin)),
  cleared: text(cleared),
  out_ba: text(out),
  margin: text(margin),
  difference: text(minus(cleared, out)),
})

/** What has a rate in the base currency; the rest, each in its own. */
export function counted(
  purses: Purses,
  rateOf: (currency: string) => number | null,
): Money & { no_rate: Record<string, Money & { wins: number }> } {
  const base = noMoney()
  const rest: [string, Money & { wins: number }][] = []
  for (const [currency, purse] of purses) {
    const rate = rateOf(currency)
    if (rate === null) rest.push([currency, { wins: purse.wins, ...moneyOf(purse) }])
    else
      for (const name of ['cleared', 'out', 'margin'] as const)
        base[name] = plus(base[name], inBase(purse[name], rate))
  }
  rest.sort(([one], [other]) => (one < other ? -1 : 1))
  return { ...moneyOf(base), no_rate: Object.fromEntries(rest) }
}
