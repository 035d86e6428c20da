/** Counts repeated notices by hour, since the ledger stores only the first one. */
import type { Log } from '../../opd/shared/log.ts'
import type { DuplicateNotice } from '../ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { hourKey, hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { type HourRow, storable } from './tables.ts'

export interface DuplicateCounts {
  count(notice: DuplicateNotice): void
  flush(): Promise<void>
  close(): Promise<void>
}

const rowOf = ({ supplier, event, mode, publisher, domain, at }: DuplicateNotice): HourRow => ({
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
  return { count: (notice) => add(rowOf(notice)), flush, close }
}
