/** What of the runs is drawn: regret, kept wins over time, margin against wins. */
import { curves, type Series } from '../harness/plot.ts'
import type { Image } from '../harness/report.ts'
import type { Row } from './drive.ts'
import type { Goal } from './goals.ts'
import type { Done } from './task.ts'

/** Bids, and a figure of all rows up to them. */
function along(rows: readonly Row[], figure: (row: Row, sum: Row) => number): [number, number][] {
  const sum = { ...rows[0]! }
  for (const key of Object.keys(sum) as (keyof Row)[]) sum[key] = 0
  return rows.map((row) => {
    for (const key of Object.keys(sum) as (keyof Row)[]) sum[key] += row[key]
    return [sum.bids, figure(row, sum)]
  })
}

/** Rows of about 60 each: a thousand points draw a blot. */
function coarser(rows: readonly Row[]): Row[] {
  const step = Math.max(1, Math.round(rows.length / 60))
  const found: Row[] = []
  for (let at = 0; at + step <= rows.length; at += step) {
    const sum = { ...rows[at]! }
    for (const row of rows.slice(at + 1, at + step))
      for (const key of Object.keys(sum) as (keyof Row)[]) sum[key] += row[key]
    found.push(sum)
  }
  return found
}

export function draw(goals: readonly Goal[], done: readonly Done[]): Image[] {
  const images: Image[] = []
  const first = (test: (goal: Goal) => boolean): { goal: Goal; rows: Row[] }[] =>
    goals.flatMap((goal, at) => {
      const run = done.find(({ goal: of }) => of === at)
      const rows = run?.measured.rows ?? []
      return test(goal) && rows.length > 1 ? [{ goal, rows: coarser(rows) }] : []
    })
  const name = (goal: Goal) => (goal.of === '' ? goal.name.replace('baseline: ', '') : 'engine')
  const write = (file: string, title: string, x: string, y: string, series: Series[]) => {
    if (series.length > 0) images.push({ file, alt: title, svg: curves(title, x, y, series) })
  }
  for (const market of ['synthetic', 'replay'])
    write(
      `RESULTS-regret-${market}.svg`,
      `Margin left to the oracle, ${market}`,
      'bids',
      'CPM a bid, so far',
      first(
        (goal) =>
          goal.market === market &&
          (goal.of === '1' || goal.of === '2' || /baseline/.test(goal.name)) &&
          goal.bids < 1e6,
      ).map(({ goal, rows }) => ({
        name: name(goal),
        points: along(rows, (_row, sum) => (sum.best - sum.margin) / sum.bids),
      })),
    )
  write(
    'RESULTS-kept.svg',
    'Wins kept, floor .97',
    'bids',
    'wins kept',
    first(({ of }) => of === '3').map(({ goal, rows }) => ({
      name: goal.market,
      points: along(rows, (row) => row.wins / row.winsBase),
    })),
  )
  write(
    'RESULTS-frontier.svg',
    'Margin against wins, the steps of a run',
    'wins kept',
    "share of the oracle's margin",
    first(({ of }) => of === '1' || of === '2' || of === '3').map(({ goal, rows }) => ({
      name: `${goal.market} ${goal.of === '3' ? 'kept' : 'pure'}`,
      points: rows.map((row) => [row.wins / row.winsBase, row.margin / row.best] as const),
    })),
  )
  return images
}
