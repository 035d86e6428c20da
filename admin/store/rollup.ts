/** Bids decided, added up by hour, supplier, arm, publisher and domain. */

import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { BidLog } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import { createTally } from './buffered-counts.ts'
import { hourOf } from './hour.ts'
import type { Store } from './index.ts'
import type { DecidedRow } from './tables.ts'
import { storable } from './text.ts'

export interface Rollup {
  /** The bid log, with every decision counted on its way in. */
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

export function createRollup(store: Store, log: Log): Rollup {
  const { add, flush, close } = createTally<DecidedRow>({
    what: 'decided bids',
    maxRows: 20_000,
    // 9 columns each: 2 ms of the event loop to put the statement together
    sliceRows: 150,
    log,
    // spelt out: it is asked for every bid. No text holds a NUL, so none runs into the next
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
