/**
 * The impression ledger: one row for each decision and event, on disk before the notice is acknowledged. Concurrent
 * notices share a commit. The primary key detects a repeated notice within the same statement.
 *
 * One win is one row. If the decision of a win is not known, the win is stored under its bid id; reported again with
 * its context, it is stored under its decision. The statement that inserts an attributed row removes the unattributed
 * row of the same win, and it inserts no unattributed row if the win has a row. This is one transaction, so a crash
 * leaves one row or the other. Two nodes with one PostgreSQL may commit both rows concurrently without seeing each
 * other. So each node sweeps after its commit: the later one sees both rows and removes the unattributed one. If both
 * nodes are killed before the sweep, both rows remain until the win is reported again or its hour is summed. No money is
 * counted twice meanwhile, because an unattributed row has no margin.
 */
import type { Kysely } from 'kysely'
import { createBatcher } from './batcher.ts'
import { isMissingPartition, isRowError, StoreError, unavailable } from './errors.ts'
import type { NewRow, SameWin } from './ledger-input.ts'
import {
  type BidLookup,
  createLedgerDays,
  dayOfRow,
  type Inserted,
  keyOf,
  ledgerSql,
} from './ledger-sql.ts'
import type { Outcome, Outcomes } from './outcomes.ts'
import type { LedgerRow, Tables } from './tables.ts'

/** Rows of one commit. */
const batchRows = 500
/** Milliseconds. */
const longestCommit = 10_000
/** Maximum of notices that wait for a commit. More are refused, and the platform sends them again. */
const maxWaiting = 20_000

interface Waiting {
  row: NewRow
  resolve(outcome: 'recorded' | 'duplicate'): void
  reject(error: Error): void
}

const bidKeyOf = ({ bid_id, event }: { bid_id: string; event: string }) => `${event} ${bid_id}`

function newRow(row: LedgerRow, same: SameWin | undefined, outcome: string | null): NewRow {
  return {
    ...row,
    notice: row.notice ?? null,
    // the database returns well-formed text, which is compared with this key
    decision: row.decision.toWellFormed(),
    day: dayOfRow(row),
    since: same === undefined ? null : Math.floor(same.since),
    of: same?.supplier ?? null,
    outcome,
    batch: '',
    node: '',
  }
}

/**
 * The number of rows, from the first, that one statement can insert. A statement does not see the rows that it inserts,
 * so an unattributed row and another row with its bid id need two statements.
 */
function independent(queue: readonly Waiting[]): number {
  const bidIds = new Map<string, Waiting>()
  let anyUnattributed = false
  for (const [index, entry] of queue.entries()) {
    if (index === batchRows) return index
    const { row } = entry
    const unattributed = row.status === 'unattributed'
    anyUnattributed ||= unattributed
    const other = bidIds.get(bidKeyOf(row))
    if (other === undefined) bidIds.set(bidKeyOf(row), entry)
    else if (anyUnattributed && (unattributed || other.row.status === 'unattributed'))
      if (keyOf(row) !== keyOf(other.row)) return index
  }
  return queue.length
}

/** The outcome of a row that has one. A row that is a duplicate has none; its entry is deleted, if there is one. */
function outcomeOf(
  { outcome, batch: _b, node: _n, day: _d, since: _s, of: _o, ...row }: NewRow,
  isFresh: boolean,
): Outcome[] {
  if (outcome === null) return []
  const { decision, event, at: time } = row
  return [{ kind: 'notice', decision, event, at: time, body: outcome, row: isFresh ? row : null }]
}

/** The table of wins. `record` resolves when the row is on disk; notices of one turn share a transaction. */
export class Ledger {
  private readonly statements: ReturnType<typeof ledgerSql>
  private readonly days: ReturnType<typeof createLedgerDays> | null
  private readonly holds: (lookup: BidLookup) => Promise<boolean>
  private readonly observe: (seconds: number) => void
  private readonly now: () => number
  private readonly outcomes: Outcomes
  private queue: Waiting[] = []
  private running: Promise<void> | null = null
  private readonly sweeping = new Set<Promise<void>>()
  private replacedRows = 0

  constructor(
    db: Kysely<Tables>,
    postgres: boolean,
    observe: (seconds: number) => void,
    now: () => number,
    outcomes: Outcomes,
  ) {
    this.statements = ledgerSql(db, postgres)
    this.days = postgres ? createLedgerDays(db) : null
    this.holds = createBatcher(this.statements.holds)
    this.observe = observe
    this.now = now
    this.outcomes = outcomes
  }

  /** Unattributed rows of any node that this node has replaced by attributed ones since its start. */
  get replaced(): number {
    return this.replacedRows
  }

  get waiting(): number {
    return this.queue.length
  }

  /**
   * Resolves when the row is on disk, or to 'duplicate' if the ledger has the win already.
   *
   * @param row identified by its `decision` and `event`
   * @param same one win is one row: an attributed row replaces the unattributed row of its win, and an unattributed row is a
   * duplicate of any win with its bid id. Undefined: only a row with the same decision and event is the same win.
   * @param outcome what follows the row, as JSON. The caller applies it in the turn of the event loop in which it gets
   * 'recorded'. If it gets an error although the row is on disk, the journal of outcomes has it.
   * @throws StoreError if the store is lost, or too many notices wait
   */
  record(row: LedgerRow, same?: SameWin, outcome?: string): Promise<'recorded' | 'duplicate'> {
    if (this.queue.length >= maxWaiting)
      return Promise.reject(
        new StoreError('overloaded', `${maxWaiting} notices are waiting for a commit`),
      )
    return new Promise((resolve, reject) => {
      this.queue.push({ row: newRow(row, same, outcome ?? null), resolve, reject })
      this.running ??= this.run()
    })
  }

  /**
   * Whether a win was reported, for any decision. Rejected rows do not count.
   *
   * @param bidId as `ledgerBidId` writes it
   * @param event of the notice
   * @param since milliseconds since the epoch; earlier notices do not count
   * @param only a status, and a supplier: rows of another one do not count, those without a supplier do
   * @throws StoreError if the store is lost
   */
  seenBid(
    bidId: string,
    event: 'win' | 'billing',
    since: number,
    only: { status?: 'attributed'; supplier?: string | undefined } = {},
  ): Promise<boolean> {
    const { status = null, supplier = null } = only
    const decidedSince = Math.min(since, 2 * since - this.now())
    return this.holds({ bidId, event, since, decidedSince, status, supplier })
  }

  /** Sweeps the unattributed rows of an hour, because a node may have ended before it swept. */
  async sweepHour(begin: number): Promise<void> {
    const swept = await this.statements.sweepHour(begin)
    this.replacedRows += swept.length
  }

  /** Resolves when all rows so far are on disk. */
  async flush(): Promise<void> {
    while (this.running !== null) await this.running
    await Promise.all(this.sweeping)
  }

  /** Inserts the rows into their days. A day that another node has dropped meanwhile is created again. */
  private async insert(rows: readonly NewRow[], again = true): Promise<Inserted> {
    const { days } = this
    await days?.ensure(new Set(rows.map((row) => row.day)))
    try {
      return await this.statements.insert(rows)
    } catch (error) {
      if (days === null || !again || !isMissingPartition(error)) throw error
      days.forget()
      return this.insert(rows, false)
    }
  }

  private async commit(batch: Waiting[]): Promise<void> {
    const { outcomes } = this
    // If a key occurs twice in a batch, only the first is inserted; the others are duplicates.
    const first = new Map<string, Waiting>()
    for (const entry of batch) if (!first.has(keyOf(entry.row))) first.set(keyOf(entry.row), entry)
    // sorted, so that two nodes do not deadlock on the same rows
    const id = outcomes.begin()
    const rows = [...first.values()]
      .map(({ row }) => ({ ...row, batch: id, node: outcomes.node }))
      .sort((one, other) => (one.decision < other.decision ? -1 : 1))
    const began = performance.now()
    try {
      const { fresh, removed } = await this.insert(rows)
      // another process may have taken over the outcomes of one that was stopped for so long
      if (performance.now() - began > longestCommit) throw new Error('the commit took too long')
      this.replacedRows += removed.length
      void this.settle(batch, first, new Set(fresh.map(keyOf)), id)
    } catch (error) {
      if (isRowError(error)) outcomes.refused(id)
      else outcomes.unanswered(id)
      // a row that the database rejects must not fail the rest of the batch
      if (batch.length > 1 && isRowError(error)) {
        for (const entry of batch) await this.commit([entry])
        return
      }
      for (const entry of batch) entry.reject(unavailable(error))
    }
    this.observe((performance.now() - began) / 1000)
  }

  /**
   * Resolves the notices of committed rows, after the sweep if other nodes write. The next batch does not wait for
   * it.
   */
  private async settle(
    batch: readonly Waiting[],
    first: ReadonlyMap<string, Waiting>,
    fresh: Set<string>,
    id: string,
  ): Promise<void> {
    const { sweep } = this.statements
    const rows = [...first.values()].map(({ row }) => row).filter(({ since }) => since !== null)
    if (sweep !== null && rows.length > 0) {
      // the rows are on disk: they stay there even if the sweep fails, and the sums of their hour sweep again
      const swept = await this.tracked(sweep(rows).catch(() => []))
      for (const row of swept) {
        const sameDay = first.get(keyOf(row))?.row.day === row.day
        if (!sameDay || !fresh.delete(keyOf(row))) this.replacedRows++
      }
    }
    this.outcomes.committed(
      id,
      [...first.values()].flatMap(({ row }) => outcomeOf(row, fresh.has(keyOf(row)))),
    )
    for (const entry of batch) {
      const key = keyOf(entry.row)
      entry.resolve(first.get(key) === entry && fresh.has(key) ? 'recorded' : 'duplicate')
    }
  }

  private async tracked<T>(work: Promise<T>): Promise<T> {
    const done = work.then(() => undefined)
    this.sweeping.add(done)
    try {
      return await work
    } finally {
      this.sweeping.delete(done)
    }
  }

  private async run(): Promise<void> {
    // Notices of one turn of the event loop share a batch. The next batch grows during a commit.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.queue.length > 0) {
      const batch = this.queue.slice(0, independent(this.queue))
      this.queue = this.queue.slice(batch.length)
      await this.commit(batch)
    }
    this.running = null
  }
}
