/** Which part of a report is read from which table: whole hours that were added up from their sums, the rest from the ledger. */
import { hour, hourOf } from '../store/hour.ts'
import { staleHours } from '../store/stale-hours.ts'
import type { Source } from './scope.ts'

export interface TimeRange {
  from: number
  to: number
}
export interface TimeRanges {
  ledger: TimeRange[]
  /** `stale`: hours in between whose sums are not used. */
  hours: (TimeRange & { stale: number[] }) | null
}

export interface RollupState {
  until: number
  sealed: number
  /** Hours of which rows have changed after they were added up. */
  stale: readonly number[]
}

/**
 * Hours before `until` have sums; of those before `sealed` there may be nothing else, so that they count whole, at
 * either end of what was asked.
 */
export function split({ from, to }: TimeRange, { until, sealed, stale }: RollupState): TimeRanges {
  const whole = (at: number, otherwise: number) => (at < sealed ? hourOf(at) : otherwise)
  const begin = whole(from, hourOf(from + hour - 1))
  const end = Math.min(until, to <= sealed ? hourOf(to + hour - 1) : hourOf(to))
  if (begin >= end) return { ledger: [{ from, to }], hours: null }
  const within = stale.filter((at) => at >= begin && at < end)
  const ledger = [
    { from, to: begin },
    ...within.map((at) => ({ from: at, to: at + hour })),
    { from: end, to },
  ].filter((part) => part.from < part.to)
  return { ledger, hours: { from: begin, to: end, stale: within } }
}

export async function readRollupState({ db }: Source): Promise<RollupState> {
  const stale = await staleHours(db)
  const row = await db.selectFrom('rolled').select(['until', 'sealed']).executeTakeFirst()
  return {
    until: Number(row?.until ?? 0),
    sealed: Number(row?.sealed ?? 0),
    stale: stale.map(({ hour }) => hour),
  }
}
