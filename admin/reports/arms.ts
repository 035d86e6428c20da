/** How notices of wins count for the arms that are compared: the same for reports, console and metrics. */
import type { KeptTotals } from '../../opd/shared/confidence.ts'
import type { SummedWins } from '../store/tables.ts'

/** Configuration that reports need: which event of a supplier is a win, and the rates. */
export interface ReportRules {
  /** By supplier; `win` for suppliers that are not listed. */
  notices: Readonly<Record<string, 'win' | 'billing' | 'both'>>
  /** Units of each currency for one of the base, with the base itself. */
  rates: Readonly<Record<string, number>>
  /** The base currency. */
  base: string
}

/** Sums of rows of the ledger with one supplier, event, arm and currency. */
export interface WinSums extends SummedWins {
  supplier: string | null
  event: string
  arm: string | null
  currency: string | null
}

export interface ComparedArms {
  optimised: KeptTotals
  holdout: KeptTotals
}

const noBids = (): KeptTotals => ({
  ...{ bids: 0, wins: 0, margin: 0, marginSquares: 0, spend: 0, spendSquares: 0 },
})
export const noArms = (): ComparedArms => ({ optimised: noBids(), holdout: noBids() })

const optimized = new Set(['treated', 'explored'])

/**
 * null: the arm is not compared.
 *
 * @param arms of a report
 * @param arm as the database has it
 */
export const armIn = (arms: ComparedArms, arm: string | null): KeptTotals | null =>
  arm === 'holdout' ? arms.holdout : arm !== null && optimized.has(arm) ? arms.optimised : null

export const listedRate = ({ rates }: ReportRules, currency: string): number | null =>
  Object.hasOwn(rates, currency) ? rates[currency]! : null

/**
 * The number of wins in a row. A win is counted by the event that trains the model. Money under the other event is
 * from before a change of `notices`, except for `both`, where it is the billing of the same win.
 */
export function winsIn(
  row: Pick<WinSums, 'event' | 'n' | 'priced' | 'supplier'>,
  rules: ReportRules,
) {
  const notices = rules.notices[row.supplier ?? ''] ?? 'win'
  const event = notices === 'billing' ? 'billing' : 'win'
  if (row.event === event) return Number(row.n)
  return notices === 'both' ? 0 : Number(row.priced)
}

/**
 * Adds wins to their arm, and their money if its currency has a rate.
 *
 * @param arms is changed
 * @param row sums of one arm and currency
 * @param rules the rates, and the arms that are compared
 */
export function addWinSums(arms: ComparedArms, row: WinSums, rules: ReportRules): void {
  const totals = armIn(arms, row.arm)
  if (totals === null) return
  totals.wins += winsIn(row, rules)
  const rate = listedRate(rules, row.currency ?? '')
  if (rate === null) return
  totals.margin += Number(row.margins) / rate
  totals.marginSquares += Number(row.squares) / rate ** 2
  totals.spend += Number(row.spends) / rate
  totals.spendSquares += Number(row.spend_squares) / rate ** 2
}
