/** Hourly sums that are written without rows of the ledger: decided bids, and repeated notices. */
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { DuplicateNotice } from '../ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { createDecidedRows } from './decided-rows.ts'
import { hourKey, hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { type DecidedRow, type HourRow, storable } from './tables.ts'

export interface Rollup extends DecisionObserver {
  /** Adds the rows of another process of this node, and takes ownership of them. */
  add(rows: readonly DecidedRow[]): void
  flush(): Promise<void>
  close(): Promise<void>
}

export function createRollup(store: Store, log: Log): Rollup {
  const held = createDecidedRows((row) => add(row))
  const { add, flush, close } = createBufferedCounts<DecidedRow>({
    drain: held.drain,
    what: 'decided bids',
    maxRows: 20_000,
    // Rows have 9 columns: building the statement takes 2 ms of the event loop.
    sliceRows: 150,
    log,
    // Storable texts have no NUL, so the key is unambiguous.
    keyOf: ({ hour, supplier, mode, arm, publisher, domain }) =>
      `${hour}\0${supplier}\0${mode}\0${arm}\0${publisher}\0${domain}`,
    merge(row, { bids, in_sum, out_sum }) {
      row.bids += bids
      row.in_sum += in_sum
      row.out_sum += out_sum
    },
    async write(rows) {
      await store.db
        .insertInto('decided')
        .values(rows)
        .onConflict((conflict) =>
          conflict
            .columns(['hour', 'supplier', 'mode', 'arm', 'publisher', 'domain'])
            .doUpdateSet(({ ref, eb }) => ({
              bids: eb(ref('decided.bids'), '+', ref('excluded.bids')),
              in_sum: eb(ref('decided.in_sum'), '+', ref('excluded.in_sum')),
              out_sum: eb(ref('decided.out_sum'), '+', ref('excluded.out_sum')),
            })),
        )
        .execute()
    },
  })
  return {
    decided: held.decided,
    add(rows) {
      for (const row of rows) add(row)
    },
    flush,
    close,
  }
}

/** Repeated notices: the ledger stores only the first one. */
export interface DuplicateCounts {
  count(notice: DuplicateNotice): void
  flush(): Promise<void>
  close(): Promise<void>
}

const duplicateRow = ({
  supplier,
  event,
  mode,
  publisher,
  domain,
  at,
}: DuplicateNotice): HourRow => ({
  hour: hourOf(at),
  supplier,
  event,
  status: 'duplicate',
  mode,
  arm: '',
  publisher: storable(publisher),
  domain: storable(domain),
  currency: '',
  n: 1,
  bids: 0,
  priced: 0,
  late: 0,
  over_count: 0,
  cleared: '0',
  out_ba: '0',
  margin: '0',
  margins: 0,
  squares: 0,
})

export function createDuplicateCounts(store: Store, log: Log): DuplicateCounts {
  const { add, flush, close } = createBufferedCounts<HourRow>({
    what: 'duplicate notices',
    maxRows: 5000,
    // 19 columns each
    sliceRows: 100,
    log,
    keyOf: (row) => hourKey.map((name) => row[name]).join('\0'),
    merge(row, { n }) {
      row.n += n
    },
    async write(rows) {
      await store.db
        .insertInto('ledger_hours')
        .values(rows)
        .onConflict((conflict) =>
          conflict.columns([...hourKey]).doUpdateSet(({ ref, eb }) => ({
            n: eb(ref('ledger_hours.n'), '+', ref('excluded.n')),
          })),
        )
        .execute()
    },
  })
  return { count: (notice) => add(duplicateRow(notice)), flush, close }
}
