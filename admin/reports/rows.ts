/**
 * One row for each group: decided bids, wins, money, and how optimized bids compare with the holdout.
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
} from '../../opd/base/decimal.ts'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { keptSpend, keptWins, uplift } from '../../opd/shared/confidence.ts'
import { uncheckedBetween } from '../store/alerts.ts'
import {
  addWinSums,
  armIn,
  type ComparedArms,
  listedRate,
  noArms,
  type ReportRules,
  winsIn,
} from './arms.ts'
import type { Money, ReportRow } from './columns.ts'
import {
  readRollupState,
  type Scope,
  type Source,
  shownKeys,
  split,
  type TimeRanges,
} from './scope.ts'
import { decidedRows, otherRows, winRows } from './sql.ts'

const amounts = ['cleared', 'out', 'margin'] as const

interface CurrencyTotal {
  wins: number
  cleared: Decimal
  out: Decimal
  margin: Decimal
}

/** Totals by currency. They are converted once, so that the result does not depend on the order of the rows. */
type CurrencyTotals = Map<string, CurrencyTotal>

const emptyTotal = (): CurrencyTotal => ({ wins: 0, cleared: zero, out: zero, margin: zero })

function addMoney(
  totals: CurrencyTotals,
  currency: string,
  wins: number,
  money: { cleared: string; out: string; margin: string },
): void {
  const total = getOrAdd(totals, currency, emptyTotal)
  total.wins += wins
  for (const name of amounts) total[name] = plus(total[name], signedDecimal(money[name]))
}

const moneyOf = ({ cleared, out, margin }: CurrencyTotal): Money => ({
  revenue: decimalText(plus(cleared, margin)),
  cleared: decimalText(cleared),
  out_ba: decimalText(out),
  margin: decimalText(margin),
  difference: decimalText(minus(cleared, out)),
})

/**
 * Fractional digits of a converted sum that its own digits are extended by. A quotient by a rate such as 0.8 ends within
 * them and is exact; one by a rate such as 0.92 has no end and is rounded.
 */
const quotientDigits = 12

/** Converts into the base currency; `rate` is units of the currency for one unit of the base. */
function inBase(money: Decimal, rate: number): Decimal {
  if (rate === 1 || money.digits === 0n) return money
  // without trailing zeros, so that the result depends on the value alone
  const exact = signedDecimal(decimalText(money))
  return dividedBy(exact, decimal(String(rate))!, exact.scale + quotientDigits)
}

/** Converts the totals that have a rate into the base currency, and lists the others each in its own currency. */
function convertTotals(
  totals: CurrencyTotals,
  rateOf: (currency: string) => number | null,
): Money & { no_rate: Record<string, Money & { wins: number }> } {
  const base = emptyTotal()
  const rest: [string, Money & { wins: number }][] = []
  for (const [currency, total] of totals) {
    const rate = rateOf(currency)
    if (rate === null) rest.push([currency, { wins: total.wins, ...moneyOf(total) }])
    else for (const name of amounts) base[name] = plus(base[name], inBase(total[name], rate))
  }
  rest.sort(([one], [other]) => (one < other ? -1 : 1))
  return { ...moneyOf(base), no_rate: Object.fromEntries(rest) }
}

const noCounts = {
  decided: 0,
  wins: 0,
  unattributed: 0,
  duplicate: 0,
  rejected: 0,
  voided: 0,
  late: 0,
  over: 0,
  lowered: 0,
  unapplied: 0,
}

interface GroupSums {
  counts: typeof noCounts
  totals: CurrencyTotals
  arms: ComparedArms
  /** The part of `totals` of hours in which money could not be checked. */
  unchecked: CurrencyTotals
}

const empty = (): GroupSums => ({
  ...{ counts: { ...noCounts }, arms: noArms() },
  ...{ totals: new Map(), unchecked: new Map() },
})

type WinRow = Awaited<ReturnType<typeof winRows>>[number]

function addWins(sums: GroupSums, row: WinRow, rules: ReportRules): void {
  const n = winsIn(row, rules)
  sums.counts.wins += n
  if (n > 0) {
    sums.counts.late += Number(row.late)
    sums.counts.over += Number(row.over_count)
    sums.counts.lowered += Number(row.lowered)
    sums.counts.unapplied += Number(row.unapplied)
  }
  addMoney(sums.totals, row.currency ?? '', n, row)
  addWinSums(sums.arms, row, rules)
}

const unknown = { at: null, lower: null, upper: null }

function rowOf(
  [key, key2]: readonly [string, string | null],
  { counts, totals, arms, unchecked }: GroupSums,
  rules: ReportRules,
): ReportRow {
  const { optimised, holdout } = arms
  const kept = keptWins(optimised, holdout) ?? unknown
  const spend = keptSpend(optimised, holdout) ?? unknown
  const gain = uplift(optimised, holdout) ?? unknown
  const rateOf = (currency: string) => listedRate(rules, currency)
  return {
    key,
    key2,
    ...counts,
    ...convertTotals(totals, rateOf),
    unproven: convertTotals(unchecked, rateOf).margin,
    win_rate: counts.decided === 0 ? null : counts.wins / counts.decided,
    kept: kept.at,
    kept_low: kept.lower,
    kept_high: kept.upper,
    kept_spend: spend.at,
    kept_spend_low: spend.lower,
    kept_spend_high: spend.upper,
    uplift: gain.at,
    uplift_low: gain.lower,
    uplift_high: gain.upper,
    currency: rules.base,
  }
}

/** Wins of hours in which the money of their supplier could not be checked. */
async function uncheckedWins(source: Source, scope: Scope, ranges: TimeRanges): Promise<WinRow[]> {
  const found = await uncheckedBetween(source.db, scope.from, scope.to)
  const among = found.filter((id) => scope.all || scope.suppliers.includes(id))
  if (among.length === 0) return []
  return winRows(source, { ...scope, suppliers: among, all: false, unchecked: true }, ranges)
}

/**
 * Reads the rows of a report.
 *
 * @param source the database, or a reader of it
 * @param scope time, dimensions and filters, checked by the call
 * @param rules rates, and which event of a supplier is a win
 */
export async function readRows(
  source: Source,
  scope: Scope,
  rules: ReportRules,
): Promise<ReportRow[]> {
  const groups = new Map<string, { keys: [string, string | null]; sums: GroupSums }>()
  const sumsOf = (stored: string) => {
    const keys = shownKeys(scope, stored)
    const id = JSON.stringify(keys)
    return getOrAdd(groups, id, () => ({ keys, sums: empty() })).sums
  }
  for (const { key, arm, n } of await decidedRows(source, scope)) {
    const sums = sumsOf(key)
    sums.counts.decided += Number(n)
    const totals = armIn(sums.arms, arm)
    if (totals !== null) totals.bids += Number(n)
  }
  const ranges = split(scope, await readRollupState(source))
  for (const row of await winRows(source, scope, ranges)) addWins(sumsOf(row.key), row, rules)
  for (const row of await uncheckedWins(source, scope, ranges))
    addMoney(sumsOf(row.key).unchecked, row.currency ?? '', 0, row)
  for (const { key, status, n, bids } of await otherRows(source, scope, ranges)) {
    const { counts } = sumsOf(key)
    if (status === 'rejected' || status === 'duplicate') counts[status] += Number(n)
    else if (status === 'voided') counts.voided += Number(bids)
    else counts.unattributed += Number(bids)
  }
  const order = (one: string | null, other: string | null, by: string | undefined) => {
    if (one === other || one === null || other === null) return 0
    // an hour that clocks show twice has the larger offset first
    if (by === 'hour') return Date.parse(one) - Date.parse(other)
    return one < other ? -1 : 1
  }
  const { by, then } = scope
  return [...groups.values()]
    .sort(
      ({ keys: one }, { keys: other }) =>
        order(one[0], other[0], by) || order(one[1], other[1], then),
    )
    .map(({ keys, sums }) => rowOf(keys, sums, rules))
}
