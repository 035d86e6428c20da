/** Notices that came again: the ledger has a row for the first alone, so the others are counted by hour. */
import { hourKey, hourOf } from './hour.ts'
import type { Store, StoreLog } from './index.ts'
import type { HourRow } from './tables.ts'
import { storable } from './text.ts'

const every = 5000
/** Rows that wait for the store; beyond, a notice counts without publisher and domain. */
const maxRows = 5000
/** Rows of one statement: 19 columns each. */
const sliceRows = 100

export interface Repeat {
  /** '' where nobody knows. */
  supplier: string
  event: string
  mode: string
  publisher: string
  domain: string
  at: number
}

export interface Repeats {
  count(repeat: Repeat): void
  flush(): Promise<void>
  close(): Promise<void>
}

const keyOf = ({ hour, supplier, event, mode, publisher, domain }: HourRow) =>
  [hour, supplier, event, mode, publisher, domain].join('\0')

const rowOf = ({ supplier, event, mode, publisher, domain, at }: Repeat): HourRow => ({
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

export function createRepeats(store: Store, log: StoreLog): Repeats {
  let rows = new Map<string, HourRow>()

  function add(row: HourRow): void {
    let kept = row
    let key = keyOf(kept)
    if (rows.size >= maxRows && !rows.has(key)) {
      kept = { ...row, publisher: '', domain: '' }
      key = keyOf(kept)
    }
    const known = rows.get(key)
    if (known === undefined) rows.set(key, kept)
    else known.n += kept.n
  }

  async function write(slice: HourRow[]): Promise<void> {
    await store.db
      .insertInto('ledger_hours')
      .values(slice)
      .onConflict((conflict) =>
        conflict.columns([...hourKey]).doUpdateSet(({ ref, eb }) => ({
          n: eb(ref('ledger_hours.n'), '+', ref('excluded.n')),
        })),
      )
      .execute()
  }

  async function flush(): Promise<void> {
    const waiting = [...rows.values()]
    rows = new Map()
    for (let at = 0; at < waiting.length; at += sliceRows) {
      try {
        await write(waiting.slice(at, at + sliceRows))
      } catch (error) {
        log.warn({ err: (error as Error).message }, 'repeated notices were not written, they wait')
        for (const row of waiting.slice(at)) add(row)
        return
      }
    }
  }

  const timer = setInterval(() => void flush(), every)
  timer.unref()
  return {
    count: (repeat) => add(rowOf(repeat)),
    flush,
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}
