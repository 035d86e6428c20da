/**
 * Counts added up in memory, row by row, until the store takes them: a look-up a count, a write every few seconds. Rows
 * that could not be written wait and grow; one that the database will not have goes, and holds up no other.
 */
import type { Log } from '../../opd/shared/log.ts'
import { oneAtATime } from '../../opd/shared/one-at-a-time.ts'
import { isOfTheRow } from './errors.ts'

const every = 5000

interface Countable {
  supplier: string
  publisher: string
  domain: string
}

export interface TallyOptions<Row> {
  /** What is counted, as the log names it. */
  what: string
  /** Rows that wait for the store; beyond, a row is added to its supplier's, without publisher and domain. */
  maxRows: number
  /** Rows of one statement. */
  sliceRows: number
  log: Log
  keyOf(row: Row): string
  /** Adds the counts of the other row to the first. */
  merge(row: Row, other: Row): void
  /** Adds the rows to those that stand in the store: all of them, or none. */
  write(rows: Row[]): Promise<void>
}

export interface Tally<Row> {
  /** The row is the tally's from then on. */
  add(row: Row): void
  flush(): Promise<void>
  close(): Promise<void>
}

export function createTally<Row extends Countable>(options: TallyOptions<Row>): Tally<Row> {
  const { what, maxRows, sliceRows, log, keyOf, merge, write } = options
  const rows = new Map<string, Row>()

  function put(key: string, row: Row): void {
    const known = rows.get(key)
    if (known === undefined) rows.set(key, row)
    else merge(known, row)
  }

  function add(row: Row): void {
    const key = keyOf(row)
    if (rows.size < maxRows || rows.has(key)) return put(key, row)
    const pooled = { ...row, publisher: '', domain: '' }
    put(keyOf(pooled), pooled)
  }

  /** How many rows the store is done with, from the first on: all, unless it is away. */
  async function offer(slice: Row[]): Promise<number> {
    try {
      await write(slice)
      return slice.length
    } catch (error) {
      const err = (error as Error).message
      if (!isOfTheRow(error)) {
        log.warn({ err }, `${what} were not written, they wait`)
        return 0
      }
      if (slice.length === 1) {
        log.warn({ err, row: slice[0] }, `${what} have no place`)
        return 1
      }
    }
    for (const [at, row] of slice.entries()) if ((await offer([row])) === 0) return at
    return slice.length
  }

  /** The rows that have waited longest, no longer among those that wait. */
  function take(most: number): Row[] {
    const taken: [string, Row][] = []
    for (const entry of rows) {
      if (taken.length === most) break
      taken.push(entry)
      rows.delete(entry[0])
    }
    // in one order on every node: PostgreSQL ends one of two statements that wait for each other's rows
    return taken.sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
  }

  /** What waits now; what comes meanwhile stands behind it. */
  async function round(): Promise<void> {
    for (let left = rows.size; left > 0; ) {
      const slice = take(Math.min(left, sliceRows))
      const done = await offer(slice)
      for (const row of slice.slice(done)) add(row)
      if (done < slice.length) return
      left -= done
    }
  }

  // who asks during a round wants the rows that it has taken, and those counted since: both are written then
  const flush = oneAtATime(round)
  const timer = setInterval(() => void flush(), every)
  timer.unref()
  return {
    add,
    flush,
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}
