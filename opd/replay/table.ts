/** The report of a replay as text: one block for each integration, one line for each figure. */

import type { ReplayCounts } from './replay.ts'
import type { IntegrationReport, TotalReport } from './report.ts'
import type { Estimate } from './sums.ts'

interface ReplayReport {
  counts: ReplayCounts
  integrations: readonly IntegrationReport[]
  total: TotalReport
}

const percent = (value: number) => `${(value * 100).toFixed(2)} %`
const plain = (value: number) => value.toFixed(4)
const count = (value: number) => value.toLocaleString('en-US')

const figures = [
  ['win_rate', 'win rate', percent],
  ['kept_wins', 'kept wins', percent],
  ['kept_spend', 'kept spend', percent],
  ['margin_share', 'margin of spend', percent],
  ['margin_per_bid', 'margin a bid (CPM)', plain],
  ['mean_factor', 'mean factor', plain],
] as const

const columns = [20, 12, 14, 30, 30]
const line = (cells: readonly string[]) =>
  cells
    .map((cell, at) => (at === 0 ? cell.padEnd(columns[0]!) : cell.padStart(columns[at]!)))
    .join('')
    .trimEnd()

const shown = (value: number | null, spell: (value: number) => string) =>
  value === null ? '-' : spell(value)
const spanned = (estimate: Estimate | null | undefined, spell: (value: number) => string) =>
  estimate == null
    ? '-'
    : `${spell(estimate.value)} [${spell(estimate.low)}, ${spell(estimate.high)}]`

function verdictOf({ verdict, why, slice }: TotalReport): string[] {
  const reasons = why.length === 0 ? '' : `: ${why.join('; ')}`
  const evidence = `${count(slice.explored)} explored, ${count(slice.effective)} effective; holdout ${count(slice.holdout)}`
  return [`  ${verdict}${reasons}`, `  (${evidence})`]
}

function block(title: string, of: TotalReport): string[] {
  const rows = figures.map(([key, name, spell]) => {
    const robust = key === 'mean_factor' ? null : of.doubly_robust?.[key]
    const ips = key === 'mean_factor' ? null : of.ips?.[key]
    return line([
      `  ${name}`,
      shown(of.logged[key], spell),
      shown(of.model[key], spell),
      spanned(robust, spell),
      spanned(ips, spell),
    ])
  })
  const head = line(['', 'logged', 'model', 'doubly robust (95 %)', 'IPS (95 %)'])
  return [title, head, ...rows, ...verdictOf(of), '']
}

function leftOf(left: Record<string, number>): string {
  const rows = Object.entries(left).map(([arm, bids]) => `${count(bids)} ${arm}`)
  return rows.length === 0 ? '' : `, not asked: ${rows.join(', ')}`
}

function headOf(counts: ReplayCounts): string {
  const { decisions, wins, from, to } = counts
  const at = (time: number | null) => (time === null ? '-' : new Date(time).toISOString())
  const rest = [
    [counts.bad, 'bad lines'],
    [counts.repeated, 'repeated lines'],
    [counts.unmatchedWins, 'wins without their decision'],
    [counts.withdrawn, 'wins excluded from training'],
    [counts.beyond, 'lines of too many integrations'],
    [counts.warmUp, 'decisions to warm up'],
    [counts.open, 'too young at the end'],
  ] as const
  const odd = rest.filter(([n]) => n > 0).map(([n, name]) => `, ${count(n)} ${name}`)
  return `${count(decisions)} decisions, ${count(wins)} wins${odd.join('')}\n${at(from)} to ${at(to)}`
}

export function table({ counts, integrations, total }: ReplayReport): string {
  const blocks = integrations.flatMap((each) =>
    block(
      `${each.ssp} (${each.mode}, ${each.policy.from === 'file' ? 'as configured' : 'defaults'}): ${count(each.bids)} bids, ${count(each.wins)} wins${leftOf(each.left)}`,
      each,
    ),
  )
  const sum = integrations.length > 1 ? block(`total: ${count(total.bids)} bids`, total) : []
  return [headOf(counts), '', ...blocks, ...sum].join('\n')
}
