/** Tables of means over seeds, and whether goals are met; plots of kept wins and of the margin. */
import { curves, type Series } from '../harness/plot.ts'
import type { Cell, Image, Table } from '../harness/report.ts'
import { mean, standardError } from '../harness/statistics.ts'
import { type Row, sumOf } from './drive.ts'
import type { Goal } from './goals.ts'
import type { Done } from './task.ts'

const within = (value: number, { atLeast, atMost }: { atLeast?: number; atMost?: number }) =>
  (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost)

const short = (value: number) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(4))

function row(goal: Goal, done: readonly Done[]): Cell[] {
  const values = done.map(({ measured }) => measured.value)
  const average = mean(values)
  const notes: Record<string, number> = {}
  for (const name of Object.keys(done[0]?.measured.notes ?? {}))
    notes[name] = mean(done.map(({ measured }) => measured.notes[name] ?? 0))
  const graded = goal.atLeast !== undefined || goal.atMost !== undefined
  const also = Object.entries(goal.also ?? {}).every(([name, range]) =>
    within(notes[name] ?? 0, range),
  )
  const met = within(average, goal) && also
  const asked = goal.atLeast !== undefined ? `>= ${goal.atLeast}` : `<= ${goal.atMost}`
  const seeds = done.map(({ seed }) => seed).join(', ')
  const bids = Math.round((done[0]?.bids ?? 0) / 1000)
  return [
    ...[goal.number === '' ? '-' : goal.number, goal.market],
    `${goal.name} (${bids}k bids, seeds ${seeds})`,
    ...[
      graded ? asked : '-',
      short(average),
      values.length > 1 ? short(standardError(values)) : '-',
    ],
    graded ? (met ? 'met' : '**not met**') : '-',
    Object.entries(notes)
      .map(([name, note]) => `${name} ${short(note)}`)
      .join(', '),
  ]
}

export const goalTable = (goals: readonly { goal: Goal; done: readonly Done[] }[]): Table => ({
  head: ['#', 'market', 'what', 'goal', 'measured', 'standard error', 'result', 'also'],
  rows: goals.map(({ goal, done }) => row(goal, done)),
})

/** About 60 points of a run, because more cannot be distinguished. */
function coarser(rows: readonly Row[]): Row[] {
  const step = Math.max(1, Math.round(rows.length / 60))
  return Array.from({ length: Math.floor(rows.length / step) }, (_each, n) =>
    sumOf(rows.slice(n * step, (n + 1) * step)),
  )
}

export function draw(goals: readonly Goal[], done: readonly Done[]): Image[] {
  /** Of the first run of each goal with one of these numbers. */
  const series = (
    goalNames: readonly string[],
    name: (goal: Goal) => string,
    points: (rows: readonly Row[]) => Series['points'],
  ): Series[] =>
    goals.flatMap((goal, index) => {
      const rows = done.find((run) => run.goal === index)?.measured.rows ?? []
      if (!goalNames.includes(goal.number) || rows.length < 2) return []
      return [{ name: name(goal), points: points(coarser(rows)) }]
    })
  const kept = series(
    ['3'],
    ({ market }) => market,
    (rows) =>
      rows.map((row, index) => [sumOf(rows.slice(0, index + 1)).bids, row.wins / row.winsBase]),
  )
  const frontier = series(
    ['1', '2', '3'],
    ({ market, number: group }) => `${market} ${group === '3' ? 'kept' : 'pure'}`,
    (rows) => rows.map((row) => [row.wins / row.winsBase, row.margin / row.best]),
  )
  const image = (name: string, alt: string, x: string, y: string, series: Series[]) =>
    series.length === 0
      ? []
      : [{ file: `RESULTS-${name}.svg`, alt, svg: curves(alt, x, y, series) }]
  const share = "share of the oracle's margin"
  return [
    ...image('kept', 'Wins kept, floor .97', 'bids', 'wins kept', kept),
    ...image('frontier', 'Margin against wins, the steps of a run', 'wins kept', share, frontier),
  ]
}
