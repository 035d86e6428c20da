/** Hourly sums that are written without rows of the ledger: decided bids, and repeated notices. */
import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { DuplicateNotice } from '../ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { hour, hourKey, hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { type DecidedRow, type HourRow, storable } from './tables.ts'

export interface Rollup extends DecisionObserver {
  flush(): Promise<void>
  close(): Promise<void>
}

/** Rows that are held by name before they are added to the buffer with its key of six parts. */
const maxHeld = 1000

const newMap = () => new Map()
const newList = () => []

/** The value of a key, which is made if it is absent. */
function entryOf<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}

/** Rows of one hour by supplier, publisher and domain; those that differ in mode or arm are a list. */
class HourRows {
  readonly hour: number
  count = 0
  private readonly suppliers = new Map<string, Map<string, Map<string, DecidedRow[]>>>()
  /** The names and rows of the last bid: the bids of a response share them. */
  private readonly last = {
    supplier: '',
    publisher: '',
    domain: '',
    rows: null as DecidedRow[] | null,
  }

  constructor(hour: number) {
    this.hour = hour
  }

  add(record: DecisionRecord, inBa: number, outBa: number): void {
    const { mode, arm } = record
    const rows = this.rowsOf(record)
    let row: DecidedRow | undefined
    for (let at = 0; at < rows.length && row === undefined; at++)
      if (rows[at]!.arm === arm && rows[at]!.mode === mode) row = rows[at]
    if (row === undefined) {
      row = rowOf(record, this.hour)
      rows.push(row)
      this.count++
    }
    row.bids++
    row.in_sum += summable(inBa)
    row.out_sum += summable(outBa)
  }

  private rowsOf({ supplier, publisher, domain }: DecisionRecord): DecidedRow[] {
    const { last } = this
    if (
      last.rows === null ||
      last.publisher !== publisher ||
      last.domain !== domain ||
      last.supplier !== supplier
    ) {
      last.rows = this.find(supplier, publisher, domain)
      Object.assign(last, { supplier, publisher, domain })
    }
    return last.rows
  }

  private find(supplier: string, publisher: string, domain: string): DecidedRow[] {
    const publishers = entryOf(this.suppliers, supplier, newMap)
    const domains = entryOf(publishers, publisher, newMap)
    return entryOf(domains, domain, newList)
  }

  *rows(): Generator<DecidedRow> {
    for (const publishers of this.suppliers.values())
      for (const domains of publishers.values()) for (const rows of domains.values()) yield* rows
  }
}

const rowOf = (record: DecisionRecord, hour: number): DecidedRow => ({
  hour,
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  bids: 0,
  in_sum: 0,
  out_sum: 0,
})

export function createRollup(store: Store, log: Log): Rollup {
  let held = new HourRows(Number.NaN)
  function drain(next = held.hour): void {
    for (const row of held.rows()) add(row)
    held = new HourRows(next)
  }
  const { add, flush, close } = createBufferedCounts<DecidedRow>({
    drain,
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
    decided(record, inBa, outBa) {
      if (record.arm === 'test') return
      // Called for every bid: to build and hash a key takes longer than all else that is counted.
      const isNow = record.at >= held.hour && record.at < held.hour + hour
      if (!isNow || held.count >= maxHeld) drain(hourOf(record.at))
      held.add(record, inBa, outBa)
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
