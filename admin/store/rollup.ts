/** Sums of decided bids by hour, supplier, mode, arm, publisher and domain. */

import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { type DecidedRow, storable } from './tables.ts'

export interface Rollup extends DecisionObserver {
  flush(): Promise<void>
  close(): Promise<void>
}

const rowOf = (record: DecisionRecord, inBa: number, outBa: number): DecidedRow => ({
  hour: hourOf(record.at),
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  bids: 1,
  in_sum: summable(inBa),
  out_sum: summable(outBa),
})

export function createRollup(store: Store, log: Log): Rollup {
  const { add, flush, close } = createBufferedCounts<DecidedRow>({
    what: 'decided bids',
    maxRows: 20_000,
    // Rows have 9 columns: building the statement takes 2 ms of the event loop.
    sliceRows: 150,
    log,
    // Called for every bid. Storable texts have no NUL, so the key is unambiguous.
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
    decided(record, inBa, outBa) {
      if (record.arm !== 'test') add(rowOf(record, inBa, outBa))
    },
    flush,
    close,
  }
}
