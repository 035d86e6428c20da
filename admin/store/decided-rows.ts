/** Decided bids, counted by hour, supplier, mode, arm, via, publisher, domain and seat until they are handed on as rows. */

import type { DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { hour, hourOf } from './hour.ts'
import { type DecidedRow, storable, type WithSeat } from './tables.ts'

interface DecidedRows extends DecisionObserver {
  /** Takes all rows, and hands on some of them at each step: all at once would hold the event loop for 10 ms. */
  drain(): Generator<undefined, void>
}

export type SeatRow = WithSeat<DecidedRow>

/** The rows of recent bids with these names; they differ in mode, arm or via. */
interface NamedRows {
  supplier: string
  publisher: string
  domain: string
  seat: string
  rows: SeatRow[]
}

/** A power of two. */
const slots = 4096
/** Slots whose rows are handed on in one step. */
const slotsAtOnce = 256

/** By three characters and the length of each name, which distinguish most of them. */
const slotOf = (supplier: string, publisher: string, domain: string, seat: string) =>
  (partOf(supplier) + 31 * partOf(publisher) + 997 * partOf(domain) + 4099 * partOf(seat)) &
  (slots - 1)

function partOf(text: string): number {
  const { length } = text
  if (length === 0) return 0
  const last = text.charCodeAt(length - 1)
  const before = length === 1 ? 0 : text.charCodeAt(length - 2)
  return length + 7 * last + 61 * before + 131 * text.charCodeAt(length >> 1)
}

const rowOf = (record: DecisionRecord): SeatRow => ({
  hour: hourOf(record.at),
  supplier: record.supplier,
  mode: record.mode,
  arm: record.arm,
  via: record.via,
  publisher: storable(record.publisher),
  domain: storable(record.domain),
  seat: storable(record.seat ?? ''),
  bids: 0,
  in_sum: 0,
  out_sum: 0,
})

/** `add` takes ownership of a row. It may get several with one key. */
export function createDecidedRows(add: (row: SeatRow) => void): DecidedRows {
  let recent: (NamedRows | null)[] = new Array(slots).fill(null)
  let begin = Number.NaN

  function empty(slot: number): void {
    for (const row of recent[slot]?.rows ?? []) add(row)
    recent[slot] = null
  }

  function* handOn(taken: readonly (NamedRows | null)[]): Generator<undefined, void> {
    for (const [slot, named] of taken.entries()) {
      for (const row of named?.rows ?? []) add(row)
      if (slot % slotsAtOnce === slotsAtOnce - 1) yield
    }
  }

  function drain(): Generator<undefined, void> {
    const taken = recent
    recent = new Array(slots).fill(null)
    return handOn(taken)
  }

  function rowsOf({ supplier, publisher, domain, seat = '' }: DecisionRecord): SeatRow[] {
    const slot = slotOf(supplier, publisher, domain, seat)
    const known = recent[slot] ?? null
    if (
      known !== null &&
      known.publisher === publisher &&
      known.domain === domain &&
      known.seat === seat &&
      known.supplier === supplier
    )
      return known.rows
    empty(slot)
    const rows: SeatRow[] = []
    recent[slot] = { supplier, publisher, domain, seat, rows }
    return rows
  }

  return {
    drain,
    // Called for every bid: to build and hash a key takes longer than all else that is counted.
    decided(record, inBa, outBa) {
      if (record.arm === 'test') return
      if (!(record.at >= begin && record.at < begin + hour)) {
        for (let slot = 0; slot < slots; slot++) empty(slot)
        begin = hourOf(record.at)
      }
      const { mode, arm, via } = record
      const rows = rowsOf(record)
      let row = rows.find((each) => each.arm === arm && each.via === via && each.mode === mode)
      if (row === undefined) {
        row = rowOf(record)
        rows.push(row)
      }
      row.bids++
      row.in_sum += summable(inBa)
      row.out_sum += summable(outBa)
    },
  }
}
