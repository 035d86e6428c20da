/** Bids decided, added up by hour, supplier, arm, publisher and domain: a look-up a bid, a write every few seconds. */
import { summable } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine.ts'
import type { BidLog } from '../../opd/ports.ts'
import { isOfTheRow } from './errors.ts'
import { hourOf } from './hour.ts'
import type { Store, StoreLog } from './index.ts'
import type { DecidedRow } from './tables.ts'
import { storable } from './text.ts'

const every = 5000
/** Rows that wait for the store; beyond, a bid is added to its supplier's row without publisher and domain. */
const maxRows = 20_000
/** Rows of one statement, 9 columns each: 2 ms of the event loop to put it together. */
const batchRows = 150

/** No text holds a NUL, so none runs into the next. */
const keyOf = (...[hour, supplier, mode, arm, publisher, domain]: Key) =>
  `${hour}\0${supplier}\0${mode}\0${arm}\0${publisher}\0${domain}`
type Key = [number, string, string, string, string, string]

export interface Rollup {
  /** The bid log, with every decision counted on its way in. */
  counting<T extends BidLog>(log: T): T
  flush(): Promise<void>
  close(): Promise<void>
}

export function createRollup(store: Store, log: StoreLog): Rollup {
  let rows = new Map<string, DecidedRow>()

  function count(record: DecisionRecord): void {
    const { supplier, mode, arm, at } = record
    if (arm === 'test') return
    let [publisher, domain] = [storable(record.publisher), storable(record.domain)]
    const begin = hourOf(at)
    let key = keyOf(begin, supplier, mode, arm, publisher, domain)
    if (rows.size >= maxRows && !rows.has(key)) {
      publisher = ''
      domain = ''
      key = keyOf(begin, supplier, mode, arm, '', '')
    }
    let row = rows.get(key)
    if (row === undefined) {
      row = { hour: begin, supplier, mode, arm, publisher, domain, bids: 0, in_sum: 0, out_sum: 0 }
      rows.set(key, row)
    }
    row.bids++
    row.in_sum += summable(Number(record.inBa))
    row.out_sum += summable(Number(record.outBa))
  }

  async function write(batch: DecidedRow[]): Promise<void> {
    await store.db
      .insertInto('decided')
      .values(batch)
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
  }

  /** Each alone: one that the database will not have goes, and holds up no other. */
  async function sift(batch: DecidedRow[]): Promise<void> {
    for (const row of batch)
      await write([row]).catch((error: unknown) => {
        if (!isOfTheRow(error)) return keep(row)
        log.warn({ err: (error as Error).message, bids: row.bids }, 'decided bids have no place')
      })
  }

  async function flush(): Promise<void> {
    const waiting = [...rows.values()]
    rows = new Map()
    for (let at = 0; at < waiting.length; at += batchRows) {
      const batch = waiting.slice(at, at + batchRows)
      try {
        await write(batch).catch((error: unknown) => {
          if (!isOfTheRow(error)) throw error
          return sift(batch)
        })
      } catch (error) {
        log.warn({ err: (error as Error).message }, 'decided bids were not written, they wait')
        for (const row of waiting.slice(at)) keep(row)
        return
      }
    }
  }

  function keep(row: DecidedRow): void {
    const key = keyOf(row.hour, row.supplier, row.mode, row.arm, row.publisher, row.domain)
    const known = rows.get(key)
    if (known === undefined) return void rows.set(key, row)
    known.bids += row.bids
    known.in_sum += row.in_sum
    known.out_sum += row.out_sum
  }

  const timer = setInterval(() => void flush(), every)
  timer.unref()
  return {
    counting(bidLog) {
      const put = bidLog.put.bind(bidLog)
      return Object.assign(Object.create(bidLog) as typeof bidLog, {
        put(record: DecisionRecord) {
          put(record)
          count(record)
        },
      })
    },
    flush,
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}
