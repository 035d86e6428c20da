/** Hourly sums that are written without rows of the ledger: decided bids, and repeated notices. */

import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime, WorkQueue } from '../../opd/base/one-at-a-time.ts'
import { inSlices } from '../../opd/base/slices.ts'
import { type Facets, facetNames } from '../../opd/shared/facets.ts'
import { addArmDays, armDaysOfBids } from './arm-days.ts'
import { DecidedBids, type FacetsRow, type SeatRow } from './decided.ts'
import { isRowError } from './errors.ts'
import { hourOf } from './hour.ts'
import { facetHourKey, hourKey } from './hour-sums.ts'
import type { Store } from './index.ts'
import { seatSums, writeSums } from './sums.ts'
import { type DecidedRow, type HourRow, type OfFacet, storable, type WithSeat } from './tables.ts'

/** Milliseconds between two rounds: of the sums, and of those by facet, which are several rows for each bid. */
const every = 5000
const facetsEvery = 60_000

interface BufferedCountsOptions<Row> {
  /** Milliseconds between two rounds. */
  every?: number
  /** The name of the counts in log lines. */
  what: string
  maxRows: number
  /** Rows of one round, all by default: the others wait, unless more than half of the maximum do. */
  roundRows?: number
  /** Beyond `maxRows`, the row to which the counts of another are added; null: they are dropped. */
  pooled(row: Row): Row | null
  /** Rows of one statement. */
  sliceRows: number
  log: Log
  keyOf(row: Row): string
  /**
   * Called before each round: takes rows that the caller still holds, and adds some of them at each step.
   *
   * @param most of which about so many are enough for the round; infinite: all are to be written
   */
  drain?(most: number): Generator<undefined, void>
  /** Called before the rows are written: writes those of which these are a part. */
  before?(): Promise<void>
  /** Adds the counts of `other` to `row`. */
  merge(row: Row, other: Row): void
  /** Adds the rows, in the order of their keys, to the stored ones: all of them, or none. */
  write(rows: Row[]): Promise<void>
}

interface BufferedCounts<Row> {
  /** Takes ownership of the row. */
  addRow(row: Row): void
  /** A round now: with few rows all are written, with many those that wait the longest. */
  writeRound(): Promise<void>
  /** Writes all rows. */
  flush(): Promise<void>
  /** Writes all that was added, without a drain. */
  writeAll(): Promise<void>
  close(): Promise<void>
}

/**
 * Counts that are summed in memory and written every few seconds. If the store is lost, the rows wait and grow. A row
 * that the database rejects is dropped and does not block the others.
 */
function createBufferedCounts<Row extends { supplier: string }>(
  options: BufferedCountsOptions<Row>,
): BufferedCounts<Row> {
  const { what, maxRows, roundRows = maxRows, sliceRows, log, keyOf, merge } = options
  /** By supplier and key: rows that are written together are near each other in the tables. */
  const rows = new Map<string, Map<string, Row>>()
  let count = 0

  function put(key: string, row: Row): void {
    const ofSupplier = getOrAdd(rows, row.supplier, () => new Map<string, Row>())
    const known = ofSupplier.get(key)
    if (known !== undefined) return merge(known, row)
    ofSupplier.set(key, row)
    count++
  }

  function addRow(row: Row): void {
    const key = keyOf(row)
    if (count < maxRows || rows.get(row.supplier)?.has(key)) return put(key, row)
    const pooled = options.pooled(row)
    if (pooled !== null) put(keyOf(pooled), pooled)
  }

  /** Writes rows and returns how many are done, counted from the first: all, unless the store is lost. */
  async function writeRows(slice: Row[]): Promise<number> {
    try {
      await options.write(slice)
      return slice.length
    } catch (error) {
      const err = (error as Error).message
      if (!isRowError(error)) {
        log.warn({ err }, `${what} could not be written and will be retried`)
        return 0
      }
      if (slice.length === 1) {
        log.warn({ err, row: slice[0] }, `${what} were rejected by the database`)
        return 1
      }
    }
    for (const [index, row] of slice.entries()) if ((await writeRows([row])) === 0) return index
    return slice.length
  }

  /** Removes rows, those of one supplier after those of another, and returns them. */
  function take(most: number): Row[] {
    const taken: [string, Row][] = []
    for (const [supplier, ofSupplier] of rows) {
      for (const entry of ofSupplier) {
        if (taken.length === most) break
        taken.push(entry)
        ofSupplier.delete(entry[0])
      }
      if (ofSupplier.size > 0) break
      rows.delete(supplier)
    }
    count -= taken.length
    // sorted, so that two nodes do not deadlock on the same rows in PostgreSQL
    return taken.sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
  }

  let isWhole = false

  /** Writes some of the rows that are waiting now, or all of them. Rows that are added meanwhile come later. */
  async function round(): Promise<void> {
    // before the first wait: a call after it has a round of its own
    const all = isWhole
    isWhole = false
    const most = all ? Number.POSITIVE_INFINITY : roundRows - count
    if (options.drain !== undefined) await inSlices(options.drain(most))
    await options.before?.()
    await writeAdded(() => (all || count > maxRows / 2 ? count : Math.min(count, roundRows)))
  }

  const writes = new WorkQueue()

  /** One after another, so that none ends while another still writes rows that it would have taken. */
  function writeAdded(rowCount: () => number): Promise<void> {
    return writes.enqueue(() => writeSlices(rowCount()))
  }

  async function writeSlices(most: number): Promise<void> {
    for (let left = most; left > 0; ) {
      const slice = take(Math.min(left, sliceRows))
      const done = await writeRows(slice)
      for (const row of slice.slice(done)) addRow(row)
      if (done < slice.length) return
      left -= done
    }
  }

  const write = oneAtATime(round)
  // a call during a round must also cover the rows of this round and later ones, so it waits for another round
  const flush = () => {
    isWhole = true
    return write()
  }
  const timer = setInterval(() => void write(), options.every ?? every).unref()
  return {
    addRow,
    writeRound: write,
    flush,
    writeAll: () => writeAdded(() => count),
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}

function* both(one: Generator<undefined, void>, other: Generator<undefined, void>) {
  yield* one
  yield* other
}

/** Without publisher, domain and seat. */
const ofSupplier = <Row extends object>(row: Row): Row & { seat: string } => ({
  ...row,
  ...{ publisher: '', domain: '', seat: '' },
})

/** A row for each facet that is known. */
const ofEachFacet = <Row extends object>(row: Row, facets: Facets) =>
  facetNames
    .filter((dimension) => facets[dimension] !== '')
    .map((dimension): Row & Pick<OfFacet<DecidedRow>, 'dimension' | 'value'> => ({
      ...row,
      dimension,
      value: storable(facets[dimension]),
    }))

/** Sums of each facet. `before` writes the sums of all, so that the facets never have more than all of them. */
function facetCounts<
  Name extends string,
  Row extends { [N in Name]: number } & { supplier: string },
>(
  store: Store,
  table: 'decided_facets' | 'ledger_hour_facets',
  key: readonly string[],
  sums: readonly Name[],
) {
  const columns = [...key, 'dimension', 'value']
  return {
    keyOf: (row: Row) => columns.map((name) => row[name as keyof Row]).join('\0'),
    merge(row: Row, other: Row) {
      for (const name of sums) (row[name] as number) += other[name]
    },
    pooled: () => null,
    write: (rows: Row[]) => writeSums(store.db, 'add', { table, key: columns, sums }, rows),
  }
}

interface Rollup extends Pick<BufferedCounts<SeatRow>, 'writeRound' | 'flush' | 'close'> {
  /** The bids of this process. */
  bids: DecidedBids
  /**
   * Adds the counts of another process of this node.
   *
   * @param rows belong to the rollup from now on, which changes them
   */
  addRows(rows: readonly SeatRow[]): void
  /** @param rows of another process of this node, by combination of facets */
  addFacets(rows: readonly FacetsRow[]): void
  /** Writes the sums of each facet, after those of all. */
  flushFacets(): Promise<void>
}

const decidedSums = ['bids', 'in_sum', 'out_sum'] as const

/**
 * The sums of decided bids by hour, written every 5 s, and by facet, every minute.
 *
 * @param store of all nodes
 * @param log failures, which are tried again
 */
export function createRollup(store: Store, log: Log): Rollup {
  const bids = new DecidedBids(
    (row) => addRow(row),
    (row) => addFacets(row),
  )
  const { addRow, writeRound, flush, writeAll, close } = createBufferedCounts<SeatRow>({
    drain: (most) => bids.drain(most),
    what: 'decided bids',
    // 16 MB
    maxRows: 64_000,
    // Rows that wait take up the counts of later bids: of 3,000 suppliers nearly each bid has a row of its own, and to write a
    // row takes as long as to price a bid.
    roundRows: 2500,
    pooled: ofSupplier,
    // A slice takes 1 ms of the event loop, in three parts.
    sliceRows: 125,
    log,
    ...seatSums<(typeof decidedSums)[number], SeatRow>(
      store,
      {
        tables: { all: 'decided', seats: 'decided_seats' },
        key: ['hour', 'supplier', 'mode', 'arm', 'via', 'publisher', 'domain'],
        sums: decidedSums,
      },
      (trx, rows) => addArmDays(trx, armDaysOfBids(rows)),
    ),
  })
  const facets = createBufferedCounts<OfFacet<DecidedRow>>({
    every: facetsEvery,
    // Both at the same moment, so that a report has each bid in both.
    drain: () => both(bids.drain(), bids.drainFacets()),
    before: writeAll,
    what: 'decided bids by country, device, format, size and deal',
    maxRows: 100_000,
    sliceRows: 125,
    log,
    ...facetCounts(
      store,
      'decided_facets',
      ['hour', 'supplier', 'mode', 'arm', 'via'],
      decidedSums,
    ),
  })
  function addFacets({ facets: byFacet, ...row }: FacetsRow): void {
    for (const facetRow of ofEachFacet(row, byFacet)) facets.addRow(facetRow)
  }
  return {
    bids,
    addRows(rows) {
      for (const row of rows) addRow(row)
    },
    addFacets(rows) {
      for (const row of rows) addFacets(row)
    },
    writeRound,
    flush,
    flushFacets: facets.flush,
    async close() {
      await facets.close()
      await close()
    },
  }
}

/** A repeated notice: the ledger stores only the first. */
export interface DuplicateNotice {
  /** '' if the supplier is not known. */
  supplier: string
  event: string
  mode: string
  via: string
  publisher: string
  domain: string
  seat: string
  facets?: Facets | undefined
  at: number
}

interface DuplicateCounts extends Pick<BufferedCounts<never>, 'flush' | 'close'> {
  /** @param notice one that the ledger has not stored */
  count(notice: DuplicateNotice): void
}

const duplicateRow = (notice: DuplicateNotice): WithSeat<HourRow> => ({
  hour: hourOf(notice.at),
  supplier: notice.supplier,
  event: notice.event,
  status: 'duplicate',
  mode: notice.mode,
  arm: '',
  via: notice.via,
  publisher: storable(notice.publisher),
  domain: storable(notice.domain),
  seat: storable(notice.seat),
  currency: '',
  n: 1,
  bids: 0,
  priced: 0,
  late: 0,
  over_count: 0,
  lowered: 0,
  unapplied: 0,
  cleared: '0',
  out_ba: '0',
  margin: '0',
  margins: 0,
  squares: 0,
  spends: 0,
  spend_squares: 0,
})

/**
 * The counts of duplicate notices by hour, written in rounds.
 *
 * @param store of all nodes
 * @param log failures, which are tried again
 */
export function createDuplicateCounts(store: Store, log: Log): DuplicateCounts {
  const { addRow, flush, close } = createBufferedCounts<WithSeat<HourRow>>({
    what: 'duplicate notices',
    maxRows: 5000,
    pooled: ofSupplier,
    // 25 columns each
    sliceRows: 50,
    log,
    ...seatSums(store, {
      tables: { all: 'ledger_hours', seats: 'ledger_hour_seats' },
      key: hourKey,
      sums: ['n'],
    }),
  })
  const facets = createBufferedCounts<OfFacet<HourRow>>({
    before: flush,
    what: 'duplicate notices by country, device, format, size and deal',
    maxRows: 5000,
    sliceRows: 50,
    log,
    ...facetCounts(store, 'ledger_hour_facets', facetHourKey, ['n']),
  })
  return {
    count(notice) {
      const row = duplicateRow(notice)
      if (notice.facets !== undefined) {
        const { publisher: _publisher, domain: _domain, seat: _seat, ...sums } = row
        for (const facetRow of ofEachFacet(sums, notice.facets)) facets.addRow(facetRow)
      }
      addRow(row)
    },
    flush: facets.flush,
    async close() {
      await facets.close()
      await close()
    },
  }
}
