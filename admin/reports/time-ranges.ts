/** Splits the time of a report: whole hours are read from their sums, the rest from the ledger. */
import { hour, hourOf } from '../store/hour.ts'
import { staleHours } from '../store/stale-hours.ts'
import type { Source } from './scope.ts'

export interface TimeRange {
  from: number
  to: number
}
export interface TimeRanges {
  ledger: TimeRange[]
  /** `stale`: hours within the range that are read from the ledger instead. */
  hours: (TimeRange & { stale: number[] }) | null
}

export interface RollupState {
  until: number
  sealed: number
  /** Hours whose rows have changed after they were summed. */
  stale: readonly number[]
}

/**
 * Hours before `until` have sums. Rows of hours before `sealed` may have been deleted, so such an hour is counted
 * whole even if the range cuts it.
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
