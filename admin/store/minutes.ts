/**
 * Figures of each supplier by minute, of the last two days, to which nodes add. The supplier '' has the sums of all suppliers. It
 * has a row for each minute in which a node ran, so that a minute without one is a gap, not a minute without requests.
 */
import { type Kysely, sql } from 'kysely'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { hour } from './hour.ts'
import type { Store } from './index.ts'
import { minute, minuteSums } from './minute-sums.ts'
import { writeSums } from './sums.ts'
import type { Tables } from './tables.ts'

/** Milliseconds for which rows are kept, and the most rows: 300 suppliers for 48 hours, 3,000 for 5. */
const keptFor = 48 * hour
const mostRows = 1_000_000
/** Rows of one statement. */
const [written, deleted] = [200, 2000]
/** Rows that wait for a store that is lost: an hour of 800 suppliers. More are dropped, and are gaps. */
const mostWaiting = 50_000

const target = { table: 'minutes', key: ['supplier', 'minute'], sums: minuteSums } as const

const rowOf = ({ supplier, minute, sums }: Waiting) => ({
  ...{ supplier, minute },
  ...Object.fromEntries(minuteSums.map((name, index) => [name, sums[index]!])),
})

interface Waiting {
  supplier: string
  /** Milliseconds since the epoch. */
  minute: number
  sums: Float64Array
}

/**
 * Adds figures to the minutes of the store. While the store is lost they wait. A statement whose response was lost may count
 * twice: these figures are for looking at, and nothing is paid by them.
 */
export class Minutes {
  private readonly store: Pick<Store, 'db'>
  private readonly log: Log
  private waiting = new Map<string, Waiting>()

  constructor(store: Pick<Store, 'db'>, log: Log) {
    this.store = store
    this.log = log
  }

  /**
   * Adds figures, which `flush` writes.
   *
   * @param supplier identifier; '': all suppliers together
   * @param time milliseconds since the epoch, within the minute
   * @param sums increases, in the order of `minuteSums`; copied
   */
  addSums(supplier: string, time: number, sums: Float64Array): void {
    const begin = time - (time % minute)
    const key = `${begin} ${supplier}`
    if (this.waiting.size >= mostWaiting && !this.waiting.has(key)) return
    const row = getOrAdd(this.waiting, key, () => ({
      ...{ supplier, minute: begin },
      sums: new Float64Array(minuteSums.length),
    }))
    for (let index = 0; index < sums.length; index++) row.sums[index]! += sums[index]!
  }

  readonly flush = oneAtATime(async () => {
    // in the order of their keys, so that two nodes do not deadlock in PostgreSQL
    const rows = [...this.waiting].sort(([one], [other]) => (one < other ? -1 : 1))
    this.waiting = new Map()
    for (let from = 0; from < rows.length; from += written) {
      const slice = rows.slice(from, from + written).map(([, row]) => rowOf(row))
      try {
        await writeSums(this.store.db, 'add', target, slice)
      } catch (error) {
        const err = (error as Error).message
        this.log.warn({ err }, 'figures by minute could not be written and will be retried')
        for (const [, { supplier, minute, sums }] of rows.slice(from))
          this.addSums(supplier, minute, sums)
        return
      }
    }
  })
}

/** Deletes some rows that are too old or too many. False: there are none. */
export async function deleteMinutes(
  db: Kysely<Tables>,
  now: number,
  most = mostRows,
): Promise<boolean> {
  const { rows } = await sql<{ minute: number }>`select minute from minutes
    order by minute desc limit 1 offset ${sql.lit(most)}`.execute(db)
  const last = Math.max(now - keptFor, Number(rows[0]?.minute ?? 0))
  const { numAffectedRows = 0n } = await sql`delete from minutes where (supplier, minute) in (
    select supplier, minute from minutes where minute <= ${sql.lit(last)}
    limit ${sql.lit(deleted)})`.execute(db)
  return numAffectedRows > 0n
}
