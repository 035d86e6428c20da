/**
 * The impression ledger: one row per decision and event, on disk before anyone is answered. Notices that come
 * together are committed together; a repeated one is told by the primary key, in the same statement.
 */
import type { Kysely } from 'kysely'
import { foreignBid, type Ledger, type LedgerEntry } from '../ports.ts'
import { isOfTheRow, StoreError } from './errors.ts'
import { gather } from './gather.ts'
import { ledgerSql } from './ledger-sql.ts'
import type { LedgerRow, Tables } from './tables.ts'

/** Rows of one commit. */
const batchRows = 500
/** Notices waiting for a commit; past it they are refused and the platform sends them again. */
const maxWaiting = 20_000

/** Unattributed wins under one bid id that are looked at. */
const mostAlike = 100
/** Stands between the reason of an unattributed win and the decision that it turned out to be of. */
const taken = ' of '

interface Waiting {
  row: LedgerRow
  resolve(outcome: 'recorded' | 'duplicate'): void
  reject(error: Error): void
}

const keyOf = ({ decision, event }: { decision: string; event: string }) => `${event} ${decision}`

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
  const holds = gather(statements.holds)
  let queue: Waiting[] = []
  let running: Promise<void> | null = null

  async function commit(batch: Waiting[]): Promise<void> {
    // A key that stands twice in one batch: the first is asked for, the others are its duplicates.
    const first = new Map<string, Waiting>()
    for (const each of batch) if (!first.has(keyOf(each.row))) first.set(keyOf(each.row), each)
    const began = performance.now()
    try {
      const inserted = await statements.insert([...first.values()].map(({ row }) => row))
      const fresh = new Set(inserted.map(keyOf))
      for (const each of batch) {
        const key = keyOf(each.row)
        each.resolve(first.get(key) === each && fresh.has(key) ? 'recorded' : 'duplicate')
      }
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

  async function run(): Promise<void> {
    // One turn of the loop gathers what came together; while a commit runs the next batch grows.
    await new Promise((resolve) => setImmediate(resolve))
    while (queue.length > 0) {
      const batch = queue.slice(0, batchRows)
      queue = queue.slice(batch.length)
      await commit(batch)
    }
    running = null
  }

  async function isOf(owner: string, decision: string, event: string): Promise<boolean> {
    const row = await db
      .selectFrom('ledger')
      .select('reason')
      .where('decision', '=', decision)
      .where('event', '=', event)
      .executeTakeFirst()
    return row?.reason?.endsWith(owner) === true
  }

  async function takeBack(entry: LedgerEntry): Promise<boolean> {
    const { decision, event, reason } = rowOf(entry)
    const { numDeletedRows } = await db
      .deleteFrom('ledger')
      .where('decision', '=', decision)
      .where('event', '=', event)
      .where('reason', reason === null ? 'is' : '=', reason)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }

  return {
    record(entry) {
      if (queue.length >= maxWaiting)
        return Promise.reject(
          new StoreError('overloaded', `${maxWaiting} notices wait for the disk`),
        )
      return new Promise((resolve, reject) => {
        queue.push({ row: rowOf(entry), resolve, reject })
        running ??= run()
      })
    },
    seenBid: (bidId, event, since, { status = null, supplier = null } = {}) =>
      holds({ bidId, event, since, status, supplier }),
    async standsFor(decision, { bidId, event, since, supplier }) {
      // nearly always none does, which is asked for many notices at once
      if (!(await holds({ bidId, event, since, status: 'unattributed', supplier }))) return false
      const rows = await db
        .selectFrom('ledger')
        .select(['decision', 'reason'])
        .where('bid_id', '=', bidId)
        .where('event', '=', event)
        .where('at', '>=', Math.floor(since))
        .where('status', '=', 'unattributed')
        .where(({ eb, or }) => or([eb('supplier', '=', supplier), eb('supplier', 'is', null)]))
        .limit(mostAlike)
        .execute()
      const owner = `${taken}${decision}`
      if (rows.some(({ reason }) => reason?.endsWith(owner))) return true
      for (const { decision: row, reason } of rows) {
        if (reason === null || reason === foreignBid || reason.includes(taken)) continue
        // who comes second, on whichever node, changes nothing and looks at the next
        const { numUpdatedRows } = await db
          .updateTable('ledger')
          .set({ reason: reason + owner })
          .where('decision', '=', row)
          .where('event', '=', event)
          .where('reason', '=', reason)
          .executeTakeFirst()
        // another node may have taken it for this very decision
        if (numUpdatedRows > 0n || (await isOf(owner, row, event))) return true
      }
      return false
    },
    takeBack: postgres ? takeBack : undefined,
    async flush() {
      while (running !== null) await running
    },
    get waiting() {
      return queue.length
    },
  }
}
