/** The price reductions of a day, summed over all nodes, because `caps.perDay` is a limit on their sum. */

import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { type DayReductions, dayOf } from '../../opd/pricing/day-reductions.ts'
import type { Store } from './index.ts'
import { writeSums } from './sums.ts'

interface TakenOff {
  /** Stores what is counted so far, and reads the sums of all nodes. Rejects if the store is lost. */
  flush(): Promise<void>
  close(): Promise<void>
}

/** Milliseconds between two exchanges with the store. */
const every = 2000
/** Days until a sum is deleted. */
const keptDays = 7
const sliceRows = 500
const stored = { table: 'taken_off', key: ['day', 'supplier'], sums: ['amount'] } as const

export function createTakenOff(
  store: Pick<Store, 'db'>,
  reductions: DayReductions,
  { now, log }: { now: () => number; log: Log },
): TakenOff {
  let cleaned = 0

  async function round(): Promise<void> {
    const today = dayOf(now())
    const fresh = reductions.fresh()
    // sorted, so that two nodes do not deadlock on the same rows
    fresh.sort((one, other) => (one.supplier < other.supplier ? -1 : 1))
    for (let from = 0; from < fresh.length; from += sliceRows) {
      const slice = fresh.slice(from, from + sliceRows)
      await writeSums(store.db, 'add', stored, slice)
      reductions.stored(slice)
    }
    const rows = await store.db
      .selectFrom('taken_off')
      .selectAll()
      .where('day', '=', today)
      .execute()
    for (const row of rows) reductions.load(row)
    if (cleaned === today) return
    await store.db
      .deleteFrom('taken_off')
      .where('day', '<', today - keptDays)
      .execute()
    cleaned = today
  }

  const flush = oneAtATime(round)
  let lost = false
  const exchange = () =>
    flush().then(
      () => {
        lost = false
      },
      (error: Error) => {
        if (!lost)
          log.warn(
            { err: error.message },
            'the price reductions of the day were not stored and will be retried',
          )
        lost = true
      },
    )
  const timer = setInterval(() => void exchange(), every).unref()
  return {
    flush,
    async close() {
      clearInterval(timer)
      await exchange()
    },
  }
}
