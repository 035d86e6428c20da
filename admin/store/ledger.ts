/**
 * The impression ledger: one row per decision and event, on disk before anyone is answered. Notices that come
 * together are committed together; a repeated one is told by the primary key, in the same statement.
 *
 * One win is one row. A win whose decision is not known is recorded under its bid id, the same win with its context
 * under the decision's. The statement that inserts an attributed row removes the unattributed row of the same win, and
 * inserts no unattributed row beside a win that it sees: one transaction, so a crash leaves the one row or the other.
 * Two nodes of one PostgreSQL may commit both rows at the same moment, neither seeing the other's. So each sweeps after
 * its own commit: the second of the two sees both rows and removes the unattributed one. Where both nodes are killed
 * before that, the two rows remain until the win is reported again, with its context or without: the statements of
 * that notice remove the row. Meanwhile no money is counted twice: an unattributed row has no margin.
 */
import type { Kysely } from 'kysely'
import type { Ledger, LedgerEntry, SameWin } from '../ports.ts'
import { createBatcher } from './batcher.ts'
import { isOfTheRow, StoreError } from './errors.ts'
import { type AskedRow, ledgerSql, type RowKey } from './ledger-sql.ts'
import type { LedgerRow, Tables } from './tables.ts'

/** Rows of one commit. */
const batchRows = 500
/** Notices waiting for a commit; past it they are refused and the platform sends them again. */
const maxWaiting = 20_000

interface Waiting {
  row: AskedRow
  resolve(outcome: 'recorded' | 'duplicate'): void
  reject(error: Error): void
}

const keyOf = ({ decision, event }: RowKey) => `${event} ${decision}`
const bidKeyOf = ({ bid_id, event }: { bid_id: string; event: string }) => `${event} ${bid_id}`

function askedRow(entry: LedgerEntry, same: SameWin | undefined): AskedRow {
  const since = same === undefined ? null : Math.floor(same.since)
  return { ...rowOf(entry), since, of: same?.supplier ?? null }
}

/**
 * How many rows from the first on may go into one statement, which does not see its own rows: none is under the bid id
 * of an unattributed one.
 */
function independent(queue: readonly Waiting[]): number {
  const bidIds = new Map<string, Waiting>()
  let bareOnes = false
  for (const [at, each] of queue.entries()) {
    if (at === batchRows) return at
    const { row } = each
    const bare = row.status === 'unattributed'
    bareOnes ||= bare
    const other = bidIds.get(bidKeyOf(row))
    if (other === undefined) bidIds.set(bidKeyOf(row), each)
    else if (bareOnes && (bare || other.row.status === 'unattributed'))
      if (keyOf(row) !== keyOf(other.row)) return at
  }
  return queue.length
}

export function rowOf(entry: LedgerEntry): LedgerRow {
  return {
    // what the database keeps of it: the answer is known again by it
    decision: entry.decision.toWellFormed(),
    event: entry.event,
    bid_id: entry.bidId,
    status: entry.status,
    by: entry.by,
    supplier: entry.supplier,
    mode: entry.mode,
    arm: entry.arm,
    publisher: entry.publisher,
    domain: entry.domain,
    in_ba: entry.inBa,
    out_ba: entry.outBa,
    cleared: entry.cleared,
    price_dsp: entry.priceDsp,
    currency: entry.currency,
    margin: entry.margin,
    late: entry.late ? 1 : 0,
    over: entry.over ? 1 : 0,
    reason: entry.reason,
    decided_at: entry.decidedAt === null ? null : Math.floor(entry.decidedAt),
    at: Math.floor(entry.at),
  }
}

export interface GroupLedger extends Ledger {
  /** Resolves when everything handed over so far is on disk. */
  flush(): Promise<void>
  readonly waiting: number
}

export function createLedger(
  db: Kysely<Tables>,
  postgres: boolean,
  observe: (seconds: number) => void,
): GroupLedger {
  const statements = ledgerSql(db, postgres)
  const holds = createBatcher(statements.holds)
  let queue: Waiting[] = []
  let running: Promise<void> | null = null
  const sweeping = new Set<Promise<void>>()
  let replaced = 0

  async function commit(batch: Waiting[]): Promise<void> {
    // A key that stands twice in one batch: the first is asked for, the others are its duplicates.
    const first = new Map<string, Waiting>()
    for (const each of batch) if (!first.has(keyOf(each.row))) first.set(keyOf(each.row), each)
    // nodes that insert the same rows at once wait for each other in one order
    const rows = [...first.values()]
      .map(({ row }) => row)
      .sort((one, other) => (one.decision < other.decision ? -1 : 1))
    const began = performance.now()
    try {
      const { fresh, removed } = await statements.insert(rows)
      replaced += removed.length
      void settle(batch, first, new Set(fresh.map(keyOf)))
    } catch (error) {
      // the others of its batch have nothing to do with a row that the database will not have
      if (batch.length > 1 && isOfTheRow(error)) {
        for (const each of batch) await commit([each])
        return
      }
      const failure =
        error instanceof StoreError
          ? error
          : new StoreError('unavailable', (error as Error).message, { cause: error })
      for (const each of batch) each.reject(failure)
    }
    observe((performance.now() - began) / 1000)
  }

  /** Answers for rows that are on disk, after the sweep where other nodes write; the next batch does not wait for it. */
  async function settle(
    batch: readonly Waiting[],
    first: ReadonlyMap<string, Waiting>,
    fresh: Set<string>,
  ): Promise<void> {
    const rows = [...first.values()].map(({ row }) => row).filter(({ since }) => since !== null)
    if (statements.sweep !== null && rows.length > 0) {
      // the rows are on disk: a store that is lost now does not undo that
      const swept = await tracked(statements.sweep(rows).catch(() => []))
      for (const row of swept) if (!fresh.delete(keyOf(row))) replaced++
    }
    for (const each of batch) {
      const key = keyOf(each.row)
      each.resolve(first.get(key) === each && fresh.has(key) ? 'recorded' : 'duplicate')
    }
  }

  async function tracked<T>(work: Promise<T>): Promise<T> {
    const over = work.then(() => undefined)
    sweeping.add(over)
    try {
      return await work
    } finally {
      sweeping.delete(over)
    }
  }

  async function run(): Promise<void> {
    // One turn of the loop gathers what came together; while a commit runs the next batch grows.
    await new Promise((resolve) => setImmediate(resolve))
    while (queue.length > 0) {
      const batch = queue.slice(0, independent(queue))
      queue = queue.slice(batch.length)
      await commit(batch)
    }
    running = null
  }

  return {
    record(entry, same) {
      if (queue.length >= maxWaiting)
        return Promise.reject(
          new StoreError('overloaded', `${maxWaiting} notices wait for the disk`),
        )
      return new Promise((resolve, reject) => {
        queue.push({ row: askedRow(entry, same), resolve, reject })
        running ??= run()
      })
    },
    seenBid: (bidId, event, since, { status = null, supplier = null } = {}) =>
      holds({ bidId, event, since, status, supplier }),
    async flush() {
      while (running !== null) await running
      await Promise.all(sweeping)
    },
    get replaced() {
      return replaced
    },
    get waiting() {
      return queue.length
    },
  }
}
