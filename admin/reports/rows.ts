/** One row a group: what was decided, what was won, and what the optimised bids kept of the holdout's wins. */
import { type ArmTotals, keptWins, uplift } from '../../opd/pricing/confidence.ts'
import { addMoney, type CurrencyTotals, convertTotals, type Money } from './currency-totals.ts'
import { decidedRows, otherRows, winRows } from './query.ts'
import { periods, type Scope, type Source } from './scope.ts'
import { readRollupState, split } from './time-ranges.ts'

export type { Scope } from './scope.ts'

export interface ReportRow extends Money {
  key: string
  decided: number
  wins: number
  unattributed: number
  /** Notices that came again, convertTotals by whole hours. */
  duplicate: number
  rejected: number
  /** Wins that an operator took out of all sums. */
  voided: number
  late: number
  over: number
  /** Money of wins in currencies without a rate, each in its own; not in the sums. */
  no_rate: Record<string, Money & { wins: number }>
  win_rate: number | null
  /** Win rate of the optimised bids over that of the holdout, with a 95 % interval that holds whenever one looks; null without a holdout. */
  kept: number | null
  kept_low: number | null
  kept_high: number | null
  /** Margin per bid of the optimised over that of the holdout, with such an interval, CPM in the base currency. */
  uplift: number | null
  uplift_low: number | null
  uplift_high: number | null
}

/** What rows are read by: what counts as a win of a supplier, and what its money is worth. */
export interface ReportRules {
  /** By supplier; `win` where it is not named. */
  notices: Readonly<Record<string, 'win' | 'billing' | 'both'>>
  /** Units of each currency for one of the base, itself among them; null: all money is the base's. */
  rates: Readonly<Record<string, number>> | null
}

function listedRate({ rates }: ReportRules, currency: string): number | null {
  if (rates === null) return 1
  return Object.hasOwn(rates, currency) ? rates[currency]! : null
}

const optimised = new Set(['treated', 'explored'])

type Arm = ArmTotals

interface Sums {
  decided: number
  wins: number
  unattributed: number
  duplicate: number
  rejected: number
  voided: number
  late: number
  over: number
  totals: CurrencyTotals
  treated: Arm
  holdout: Arm
}

const noArm = (): Arm => ({ bids: 0, wins: 0, margin: 0, marginSquares: 0 })
const empty = (): Sums => ({
  decided: 0,
  wins: 0,
  unattributed: 0,
  duplicate: 0,
  rejected: 0,
  voided: 0,
  late: 0,
  over: 0,
  totals: new Map(),
  treated: noArm(),
  holdout: noArm(),
})

const armOf = (sums: Sums, arm: string | null): Arm | null =>
  arm === 'holdout' ? sums.holdout : arm !== null && optimised.has(arm) ? sums.treated : null

function keptOf({ treated, holdout }: Sums) {
  const kept = keptWins(treated, holdout)
  return { kept: kept?.at ?? null, kept_low: kept?.lower ?? null, kept_high: kept?.upper ?? null }
}

function upliftOf({ treated, holdout }: Sums) {
  const found = uplift(treated, holdout)
  return {
    uplift: found?.at ?? null,
    uplift_low: found?.lower ?? null,
    uplift_high: found?.upper ?? null,
  }
}

type WinRow = Awaited<ReturnType<typeof winRows>>[number]

/**
 * How many wins a row stands for: the event that teaches is the win; money that came under the other event is one
 * of the time before `notices` changed, but for `both`, where it is the bill of the same win.
 */
function winsIn(row: WinRow, notices = 'win'): number {
  const event = notices === 'billing' ? 'billing' : 'win'
  if (row.event === event) return Number(row.n)
  return notices === 'both' ? 0 : Number(row.priced)
}

function addWins(sums: Sums, row: WinRow, rules: ReportRules): void {
  const n = winsIn(row, rules.notices[row.supplier ?? ''])
  const side = armOf(sums, row.arm)
  const worth = listedRate(rules, row.currency ?? '')
  sums.wins += n
  if (side !== null) side.wins += n
  if (n > 0) {
    sums.late += Number(row.late)
    sums.over += Number(row.over_count)
  }
  addMoney(sums.totals, row.currency ?? '', n, row)
  if (side === null || worth === null) return
  side.margin += Number(row.margins) / worth
  side.marginSquares += Number(row.squares) / worth ** 2
}

export async function readRows(
  source: Source,
  scope: Scope,
  rules: ReportRules,
): Promise<ReportRow[]> {
  const groups = new Map<string, Sums>()
  const of = (key: string) => {
    let sums = groups.get(key)
    if (sums === undefined) {
      sums = empty()
      groups.set(key, sums)
    }
    return sums
  }
  for (const { key, arm, n } of await decidedRows(source, scope)) {
    const sums = of(key)
    sums.decided += Number(n)
    const side = armOf(sums, arm)
    if (side !== null) side.bids += Number(n)
  }
  const ranges = split(scope, await readRollupState(source))
  for (const row of await winRows(source, scope, ranges)) addWins(of(row.key), row, rules)
  for (const { key, status, n, bids } of await otherRows(source, scope, ranges)) {
    const sums = of(key)
    if (status === 'rejected') sums.rejected += Number(n)
    else if (status === 'duplicate') sums.duplicate += Number(n)
    else if (status === 'voided') sums.voided += Number(bids)
    else sums.unattributed += Number(bids)
  }
  const timed = periods[scope.by] !== undefined
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .map(([key, sums]) => ({
      key: timed ? new Date(Number(key)).toISOString() : key,
      decided: sums.decided,
      wins: sums.wins,
      unattributed: sums.unattributed,
      duplicate: sums.duplicate,
      rejected: sums.rejected,
      voided: sums.voided,
      late: sums.late,
      over: sums.over,
      ...convertTotals(sums.totals, (currency) => listedRate(rules, currency)),
      win_rate: sums.decided === 0 ? null : sums.wins / sums.decided,
      ...keptOf(sums),
      ...upliftOf(sums),
    }))
}
