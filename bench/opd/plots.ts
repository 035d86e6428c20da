/** What of the runs is drawn: kept wins over time, margin against wins. */
import { curves, type Series } from '../harness/plot.ts'
import type { Image } from '../harness/report.ts'
import { type Row, sumOf } from './drive.ts'
import type { Goal } from './goals.ts'
import type { Done } from './task.ts'

/** About 60 of a run: a thousand points draw a blot. */
function coarser(rows: readonly Row[]): Row[] {
  const step = Math.max(1, Math.round(rows.length / 60))
  return Array.from({ length: Math.floor(rows.length / step) }, (_each, n) =>
    sumOf(rows.slice(n * step, (n + 1) * step)),
  )
}

export function draw(goals: readonly Goal[], done: readonly Done[]): Image[] {
  /** Of the first run of each goal with one of these numbers. */
  const series = (
    of: readonly string[],
    name: (goal: Goal) => string,
    points: (rows: readonly Row[]) => Series['points'],
  ): Series[] =>
    goals.flatMap((goal, at) => {
      const rows = done.find((run) => run.goal === at)?.measured.rows ?? []
      if (!of.includes(goal.of) || rows.length < 2) return []
      return [{ name: name(goal), points: points(coarser(rows)) }]
    })
  const kept = series(
    ['3'],
    ({ market }) => market,
    (rows) => rows.map((row, at) => [sumOf(rows.slice(0, at + 1)).bids, row.wins / row.winsBase]),
  )
  const frontier = series(
    ['1', '2', '3'],
    ({ market, of }) => `${market} ${of === '3' ? 'kept' : 'pure'}`,
    (rows) => rows.map((row) => [row.wins / row.winsBase, row.margin / row.best]),
  )
  const image = (name: string, alt: string, x: string, y: string, of: Series[]) =>
    of.length === 0 ? [] : [{ file: `RESULTS-${name}.svg`, alt, svg: curves(alt, x, y, of) }]
  const share = "share of the oracle's margin"
  return [
    ...image('kept', 'Wins kept, floor .97', 'bids', 'wins kept', kept),
    ...image('frontier', 'Margin against wins, the steps of a run', 'wins kept', share, frontier),
  ]
}
