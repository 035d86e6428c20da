/**
 * What each node has sent to the event log, so that wins and losses are sent at least once. The row of a node says the
 * time before which all of its outcomes are in the log. A node that ended without it leaves its row; another node takes
 * the row and sends the outcomes of the ledger from that time on again.
 */
import { sql } from 'kysely'
import type { Store } from './index.ts'
import { type LedgerRow, ledgerTable } from './tables.ts'

/** Rows of one page. */
const pageRows = 500

type Page = { wins: LedgerRow[]; losses: { decision: string; at: number }[] }

export interface EventMarks {
  /**
   * Writes the mark of this node, and takes over those of nodes that have not written for `deadAfter` milliseconds.
   * Returns the earliest mark, from which this node is responsible.
   */
  write(sent: number, now: number, deadAfter: number): Promise<number>
  /** Removes the mark of this node: everything was sent. */
  remove(): Promise<void>
  /** Leaves the mark to any other node at once. */
  abandon(): Promise<void>
  /** Wins, voided wins and losses that were recorded at or after `from`. */
  pages(from: number): AsyncGenerator<Page>
  /** The rows of one decision. */
  wins(decision: string): Promise<LedgerRow[]>
}

/** The rows by pages; `after` reads those that follow a row. */
async function* paged<Key, Row extends Key>(
  start: Key,
  after: (last: Key) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  for (let last: Key | undefined = start; last !== undefined; ) {
    const rows: Row[] = await after(last)
    if (rows.length > 0) yield rows
    last = rows.length < pageRows ? undefined : rows.at(-1)
  }
}

export function eventMarks(store: Store, node: string): EventMarks {
  const { wins: db, postgres } = store

  const winsAfter = ({ at, decision, event }: Pick<LedgerRow, 'at' | 'decision' | 'event'>) =>
    db
      .selectFrom(ledgerTable(postgres))
      .selectAll()
      .where(sql<boolean>`(at, decision, event) > (${Number(at)}, ${decision}, ${event})`)
      .where('status', 'in', ['attributed', 'voided'])
      .orderBy('at')
      .orderBy('decision')
      .orderBy('event')
      .limit(pageRows)
      .execute()

  const lossesAfter = ({ at, decision }: Pick<LedgerRow, 'at' | 'decision'>) =>
    db
      .selectFrom('losses')
      .select(['decision', 'at'])
      .where(sql<boolean>`(at, decision) > (${Number(at)}, ${decision})`)
      .orderBy('at')
      .orderBy('decision')
      .limit(pageRows)
      .execute()

  /** A void leaves the time of its win as it was. The audit trail has the time of the void. */
  const voidsAfter = (from: number, id: number) =>
    db
      .selectFrom('audit')
      .select(['id', 'after'])
      .where('action', '=', 'void')
      .where('at', '>=', from)
      .where('id', '>', Number(id))
      .orderBy('id')
      .limit(pageRows)
      .execute()

  const winsOf = (decision: string) =>
    db.selectFrom(ledgerTable(postgres)).selectAll().where('decision', '=', decision).execute()

  const setAlive = (alive: number) =>
    db.updateTable('event_marks').set({ alive }).where('node', '=', node).execute()

  return {
    async write(sent, now, deadAfter) {
      await db
        .insertInto('event_marks')
        .values({ node, sent, alive: now })
        .onConflict((conflict) => conflict.column('node').doUpdateSet({ sent, alive: now }))
        .execute()
      const dead = db
        .selectFrom('event_marks')
        .select(['node', 'sent'])
        .where('node', '<>', node)
        .where('alive', '<=', now - deadAfter)
      if ((await dead.execute()).length === 0) return sent
      return db.transaction().execute(async (trx) => {
        // Another node that takes over waits here, and then finds no row.
        const locking = postgres ? sql` for update` : sql``
        const { rows } = await sql<{ node: string; sent: number }>`
          select node, sent from event_marks
          where node <> ${node} and alive <= ${now - deadAfter}${locking}`.execute(trx)
        const earliest = Math.min(sent, ...rows.map((row) => Number(row.sent)))
        await trx
          .updateTable('event_marks')
          .set({ sent: earliest })
          .where('node', '=', node)
          .execute()
        for (const row of rows)
          await trx.deleteFrom('event_marks').where('node', '=', row.node).execute()
        return earliest
      })
    },
    async remove() {
      await db.deleteFrom('event_marks').where('node', '=', node).execute()
    },
    async abandon() {
      await setAlive(0)
    },
    async *pages(from) {
      const before = { at: from - 1, decision: '', event: '' }
      for await (const wins of paged(before, winsAfter)) yield { wins, losses: [] }
      for await (const rows of paged({ id: 0 }, ({ id }) => voidsAfter(from, id)))
        for (const { after } of rows) {
          const voided = JSON.parse(after ?? '[]') as { decision: string }[]
          for (const decision of new Set(voided.map((row) => row.decision)))
            yield { wins: await winsOf(decision), losses: [] }
        }
      for await (const rows of paged(before, lossesAfter)) {
        // A loss without a decision is stored under its bid id.
        const losses = rows.filter((row) => !row.decision.startsWith('bid:'))
        if (losses.length > 0) yield { wins: [], losses }
      }
    },
    wins: winsOf,
  }
}
