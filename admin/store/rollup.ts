/** Hourly sums that are written without rows of the ledger: decided bids, and repeated notices. */
import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import type { DuplicateNotice } from '../ports.ts'
import { createBufferedCounts } from './buffered-counts.ts'
import { hour, hourKey, hourOf } from './hour.ts'
import type { Store } from './index.ts'
import { seatSums } from './seat-sums.ts'
import { type DecidedRow, type HourRow, storable, type WithSeat } from './tables.ts'

export interface Rollup extends DecisionObserver {
  flush(): Promise<void>
  close(): Promise<void>
}

/** Rows that are held by name before they are added to the buffer with its key of seven parts. */
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

type SeatRow = WithSeat<DecidedRow>

/** Rows of one hour by supplier, publisher, domain and seat; those that differ in mode or arm are a list. */
class HourRows {
  readonly hour: number
  count = 0
  private readonly suppliers = new Map<string, Map<string, Map<string, Map<string, SeatRow[]>>>>()

  constructor(hour: number) {
    this.hour = hour
  }

  add(record: DecisionRecord, inBa: number, outBa: number): void {
    const { mode, arm } = record
    const rows = this.rowsOf(record)
    let row: SeatRow | undefined
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

  private rowsOf({ supplier, publisher, domain, seat = '' }: DecisionRecord): SeatRow[] {
    const publishers = entryOf(this.suppliers, supplier, newMap)
    const domains = entryOf(publishers, publisher, newMap)
    return entryOf(entryOf(domains, domain, newMap), seat, newList)
  }

  *rows(): Generator<SeatRow> {
    for (const publishers of this.suppliers.values())
      for (const domains of publishers.values())
        for (const seats of domains.values()) for (const rows of seats.values()) yield* rows
  }
}

const rowOf = (record: DecisionRecord, hour: number): SeatRow => ({
  hour,
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  seat: storable(record.seat ?? ''),
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
  const { add, flush, close } = createBufferedCounts<SeatRow>({
    drain,
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
