/** Decided bids, summed by hour, supplier, arm, publisher and domain. */
import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { BidLog } from '../../opd/ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { hourOf } from './hour.ts'
import type { Store, StoreLog } from './index.ts'
import { type DecidedRow, storable } from './tables.ts'

export interface Rollup {
  /** Wraps the bid log so that every decision is counted. */
  counting<T extends BidLog>(log: T): T
  flush(): Promise<void>
  close(): Promise<void>
}

const rowOf = (record: DecisionRecord): DecidedRow => ({
  hour: hourOf(record.at),
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  bids: 1,
  in_sum: summable(Number(record.inBa)),
  out_sum: summable(Number(record.outBa)),
})

export function createRollup(store: Store, log: StoreLog): Rollup {
  const { add, flush, close } = createBufferedCounts<DecidedRow>({
    what: 'decided bids',
    maxRows: 20_000,
    // 9 columns each: building the statement takes 2 ms of the event loop
    sliceRows: 150,
    log,
    // written out, since it runs for every bid. No field contains a NUL
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
    counting(bidLog) {
      const put = bidLog.put.bind(bidLog)
      return Object.assign(Object.create(bidLog) as typeof bidLog, {
        put(record: DecisionRecord) {
          put(record)
          if (record.arm !== 'test') add(rowOf(record))
        },
      })
    },
    flush,
    close,
  }
}
