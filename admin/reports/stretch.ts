/** Which part of a report is read from which table: whole hours that were added up from their sums, the rest from the ledger. */
import { hour, hourOf } from '../store/hour.ts'
import type { Source } from './scope.ts'

export interface Stretch {
  from: number
  to: number
}
export interface Stretches {
  ledger: Stretch[]
  hours: Stretch | null
}

/**
 * Hours before `until` have sums; of those before `sealed` there may be nothing else, so that they count whole, at
 * either end of what was asked.
 */
export function split(
  { from, to }: Stretch,
  { until, sealed }: { until: number; sealed: number },
): Stretches {
  const whole = (at: number, otherwise: number) => (at < sealed ? hourOf(at) : otherwise)
  const begin = whole(from, hourOf(from + hour - 1))
  const end = Math.min(until, to <= sealed ? hourOf(to + hour - 1) : hourOf(to))
  if (begin >= end) return { ledger: [{ from, to }], hours: null }
  const ledger = [
    { from, to: begin },
    { from: end, to },
  ].filter((part) => part.from < part.to)
  return { ledger, hours: { from: begin, to: end } }
}

export async function rolledOf({ db }: Source): Promise<{ until: number; sealed: number }> {
  const row = await db.selectFrom('rolled').select(['until', 'sealed']).executeTakeFirst()
  return { until: Number(row?.until ?? 0), sealed: Number(row?.sealed ?? 0) }
}
