/** The rows of the table: mean and standard error over seeds, and whether the goal is met. */
import type { Goal } from './goals.ts'
import type { Speed } from './speed.ts'
import type { Done } from './task.ts'

interface Result {
  goal: Goal
  mean: number
  error: number
  met: boolean | null
  notes: Record<string, number>
  seeds: number[]
}

const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length

const within = (value: number, { atLeast, atMost }: { atLeast?: number; atMost?: number }) =>
  (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost)

export function resultOf(goal: Goal, done: readonly Done[]): Result {
  const values = done.map(({ measured }) => measured.value)
  const average = mean(values)
  const squares = values.reduce((sum, value) => sum + (value - average) ** 2, 0)
  const error = Math.sqrt(squares / Math.max(1, values.length - 1) / values.length)
  const notes: Record<string, number> = {}
  for (const name of Object.keys(done[0]?.measured.notes ?? {}))
    notes[name] = mean(done.map(({ measured }) => measured.notes[name] ?? 0))
  const graded = goal.atLeast !== undefined || goal.atMost !== undefined
  const also = Object.entries(goal.also ?? {}).every(([name, of]) => within(notes[name] ?? 0, of))
  const met = graded ? within(average, goal) && also : null
  return { goal, mean: average, error, met, notes, seeds: done.map(({ seed }) => seed) }
}

const short = (value: number) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(4))

export function line({ goal, mean: at, error, met, notes }: Result): string {
  const asked =
    goal.atLeast !== undefined
      ? `>= ${goal.atLeast}`
      : goal.atMost !== undefined
        ? `<= ${goal.atMost}`
        : '-'
  const more = Object.entries(notes).map(([name, note]) => `${name} ${short(note)}`)
  const verdict = met === null ? '-' : met ? 'met' : '**not met**'
  const number = goal.of === 0 ? '-' : goal.of
  const what = `${goal.name} (${goal.bids / 1000}k bids, ${goal.seeds} seeds)`
  return `| ${number} | ${goal.market} | ${what} | ${asked} | ${short(at)} | ${short(error)} | ${verdict} | ${more.join(', ')} |`
}

export const head =
  '| # | market | what | goal | measured | standard error | | also |\n|---|---|---|---|---|---|---|---|'

export function speedLines(speed: Speed): string {
  const rows: [string, number, number, string][] = [
    ['decide, 99 %', speed.decideP99, 10, 'us'],
    ['decide, median', speed.decideMedian, Number.NaN, 'us'],
    ['expose, mean', speed.expose, Number.NaN, 'us'],
    ['win and settle, a bid', speed.winAndSettle, 5, 'us'],
    ['model', speed.modelMiB, 16, 'MiB'],
    ['pending exposures, 4M of 2,000/s', speed.pendingMB, 64, 'MB'],
    ['longest advance', speed.advanceMost, 5, 'ms'],
    ['longest delta', speed.deltaMost, 5, 'ms'],
    ['longest slice of a snapshot', speed.snapshot, 5, 'ms'],
  ]
  const lines = rows.map(([name, value, most, unit]) => {
    const verdict = Number.isNaN(most) ? '-' : value <= most ? 'met' : '**not met**'
    return `| 10 | ${name} | ${Number.isNaN(most) ? '-' : `<= ${most} ${unit}`} | ${value.toFixed(2)} ${unit} | ${verdict} |`
  })
  return ['| # | what | goal | measured | |', '|---|---|---|---|---|', ...lines].join('\n')
}
