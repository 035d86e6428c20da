/** The rows of the table: mean and standard error over seeds, and whether the goal is met. */
import type { Cell, Table } from '../harness/report.ts'
import { mean, standardError } from '../harness/statistics.ts'
import type { Goal } from './goals.ts'
import { parts } from './parts.ts'
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
  const also = Object.entries(goal.also ?? {}).every(([name, of]) => within(notes[name] ?? 0, of))
  const met = within(average, goal) && also
  const asked = goal.atLeast !== undefined ? `>= ${goal.atLeast}` : `<= ${goal.atMost}`
  const seeds = done.map(({ seed }) => seed).join(', ')
  const bids = Math.round((done[0]?.bids ?? 0) / 1000)
  return [
    ...[goal.of === '' ? '-' : goal.of, goal.market],
    `${goal.name} (${bids}k bids, seeds ${seeds})`,
    ...[graded ? asked : '-', short(average), short(standardError(values))],
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

/** By market, what was measured with all parts and without each. */
export function partsTable(markets: readonly string[], done: readonly (readonly Done[])[]): Table {
  const cell = (of: readonly Done[], part: string | undefined) => {
    const values: number[] = []
    const least: number[] = []
    for (const { seed, without, measured } of of) {
      if (without !== part) continue
      const all = of.find((each) => each.seed === seed && each.without === undefined)!
      values.push(measured.value - (part === undefined ? 0 : all.measured.value))
      least.push(Math.min(measured.notes.wins!, measured.notes.spend!))
    }
    const sign = part !== undefined && mean(values) >= 0 ? '+' : ''
    return `${sign}${mean(values).toFixed(3)} ± ${standardError(values).toFixed(3)}, ${mean(least).toFixed(3)}`
  }
  return {
    head: ['without', ...markets],
    rows: [undefined, ...Object.keys(parts)].map((part) => [
      part ?? '(all parts: the share)',
      ...done.map((of) => cell(of, part)),
    ]),
  }
}
