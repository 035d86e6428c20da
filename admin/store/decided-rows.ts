/** Decided bids, counted by hour, supplier, mode, arm, publisher, domain and seat until they are handed on as rows. */

import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import { getOrAdd } from '../../opd/shared/get-or-add.ts'
import { hour, hourOf } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

interface DecidedRows extends DecisionObserver {
  /** Hands on all rows. */
  drain(): void
}

/** Rows that are held by name before they are added to the buffer with its key of seven parts. */
const maxHeld = 1000

export type SeatRow = WithSeat<DecidedRow>

interface NamedRows {
  supplier: string
  publisher: string
  domain: string
  seat: string
  rows: SeatRow[]
}

/** A power of two. */
const slots = 1024

/** By two characters and the length of each name, which tell most of them apart. */
const slotOf = (supplier: string, publisher: string, domain: string, seat: string) =>
  (partOf(supplier) + 31 * partOf(publisher) + 997 * partOf(domain) + 4099 * partOf(seat)) &
  (slots - 1)

function partOf(text: string): number {
  const { length } = text
  if (length === 0) return 0
  return length + 7 * text.charCodeAt(length - 1) + 131 * text.charCodeAt(length >> 1)
}

const newMap = () => new Map()
const newList = () => []

/** Rows of one hour by supplier, publisher, domain and seat; those that differ in mode or arm are a list. */
class HourRows {
  readonly hour: number
  count = 0
  private readonly suppliers = new Map<string, Map<string, Map<string, Map<string, SeatRow[]>>>>()
  /** The names and rows of recent bids. A name that is not looked up in a map need not be hashed and made unique. */
  private readonly recent: (NamedRows | null)[] = new Array(slots).fill(null)

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
    const slot = slotOf(supplier, publisher, domain, seat)
    const known = this.recent[slot] ?? null
    if (
      known !== null &&
      known.publisher === publisher &&
      known.domain === domain &&
      known.seat === seat &&
      known.supplier === supplier
    )
      return known.rows
    const rows = this.find(supplier, publisher, domain, seat)
    this.recent[slot] = { supplier, publisher, domain, seat, rows }
    return rows
  }

  private find(supplier: string, publisher: string, domain: string, seat: string): SeatRow[] {
    const publishers = getOrAdd(this.suppliers, supplier, newMap)
    const domains = getOrAdd(publishers, publisher, newMap)
    return getOrAdd(getOrAdd(domains, domain, newMap), seat, newList)
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

export function createDecidedRows(add: (row: SeatRow) => void): DecidedRows {
  let held = new HourRows(Number.NaN)
  function drain(next = held.hour): void {
    for (const row of held.rows()) add(row)
    held = new HourRows(next)
  }
  return {
    drain: () => drain(),
    decided(record, inBa, outBa) {
      if (record.arm === 'test') return
      // Called for every bid: to build and hash a key takes longer than all else that is counted.
      const isNow = record.at >= held.hour && record.at < held.hour + hour
      if (!isNow || held.count >= maxHeld) drain(hourOf(record.at))
      held.add(record, inBa, outBa)
    },
  }
}
