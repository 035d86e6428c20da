/** Hourly sums that are written without rows of the ledger: decided bids, and repeated notices. */
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { DuplicateNotice } from '../ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { createDecidedRows, type SeatRow } from './decided-rows.ts'
import { hourKey, hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { seatSums } from './seat-sums.ts'
import { type HourRow, storable, type WithSeat } from './tables.ts'

interface Rollup extends DecisionObserver {
  /** Adds the rows of another process of this node, and takes ownership of them. */
  add(rows: readonly SeatRow[]): void
  flush(): Promise<void>
  close(): Promise<void>
}

export function createRollup(store: Store, log: Log): Rollup {
  const held = createDecidedRows((row) => add(row))
  const { add, flush, close } = createBufferedCounts<SeatRow>({
    drain: held.drain,
    what: 'decided bids',
    maxRows: 20_000,
    // Rows have 10 columns: building the statements takes 2 ms of the event loop.
    sliceRows: 75,
    log,
    ...seatSums(store, {
      tables: { all: 'decided', seats: 'decided_seats' },
      key: ['hour', 'supplier', 'mode', 'arm', 'publisher', 'domain'],
      sums: ['bids', 'in_sum', 'out_sum'],
    }),
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
interface DuplicateCounts {
  count(notice: DuplicateNotice): void
  flush(): Promise<void>
  close(): Promise<void>
}

const duplicateRow = (notice: DuplicateNotice): WithSeat<HourRow> => ({
  hour: hourOf(notice.at),
  supplier: notice.supplier,
  event: notice.event,
  status: 'duplicate',
  mode: notice.mode,
  arm: '',
  publisher: storable(notice.publisher),
  domain: storable(notice.domain),
  seat: storable(notice.seat ?? ''),
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
  const { add, flush, close } = createBufferedCounts<WithSeat<HourRow>>({
    what: 'duplicate notices',
    maxRows: 5000,
    // 20 columns each
    sliceRows: 50,
    log,
    ...seatSums(store, {
      tables: { all: 'ledger_hours', seats: 'ledger_hour_seats' },
      key: hourKey,
      sums: ['n'],
    }),
  })
  return { count: (notice) => add(duplicateRow(notice)), flush, close }
}
