/**
 * What each node has sent to the event log, so that wins and losses are sent at least once. The row of a node contains the
 * time before which all of its wins and losses are in the log. If a node is killed, its row remains; another node takes
 * over the row and sends the wins and losses of the ledger from that time on again.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Store } from './index.ts'
import { type LedgerRow, ledgerTable, type Tables } from './tables.ts'

/** Rows of one page. */
const pageRows = 500

type Loss = Tables['losses']
type Page = { wins: LedgerRow[]; losses: Loss[] }

export interface EventMarks {
  /**
   * Writes the mark of this node, and takes over those of nodes that have not written for `deadAfter` milliseconds.
   * Returns the earliest mark, from which this node is responsible.
   */
  write(sent: number, now: number, deadAfter: number): Promise<number>
  /** Removes the mark of this node: everything was sent. */
  remove(): Promise<void>
  /** Lets any other node take over the mark at once. */
  abandon(): Promise<void>
  /** Wins, voided wins and losses that were recorded at or after `from`. */
  pages(from: number): AsyncGenerator<Page>
  /** The rows of one decision. */
  wins(decision: string): Promise<LedgerRow[]>
}

export function eventMarks(store: Store, node: string): EventMarks {
  const { wins: db } = store
  const ledger = ledgerTable(store.postgres)

  /** The rows by pages; `after` selects those that follow a row. */
  async function* paged<Key, Row extends Key>(start: Key, after: (last: Key) => RawBuilder<Row>) {
    for (let last: Key | undefined = start; last !== undefined; ) {
      const { rows }: { rows: Row[] } = await after(last).execute(db)
      if (rows.length > 0) yield rows
      last = rows.length < pageRows ? undefined : rows.at(-1)
    }
  }

  const winsAfter = ({ at, decision, event }: Pick<LedgerRow, 'at' | 'decision' | 'event'>) =>
    sql<LedgerRow>`select * from ${sql.table(ledger)}
      where (at, decision, event) > (${at}, ${decision}, ${event}) and status in ('attributed', 'voided')
      order by at, decision, event limit ${pageRows}`

  const lossesAfter = ({ at, decision }: Loss) =>
    sql<Loss>`select decision, at from losses where (at, decision) > (${at}, ${decision})
      order by at, decision limit ${pageRows}`

  /** A void leaves the time of its win as it was. The audit trail has the time of the void. */
  const voidsAfter = (from: number, id: number) =>
    sql<{ id: number; after: string | null }>`select id, "after" from audit
      where action = 'void' and at >= ${from} and id > ${id} order by id limit ${pageRows}`

  const winsOf = (decision: string) =>
    db.selectFrom(ledger).selectAll().where('decision', '=', decision).execute()

  return {
    async write(sent, now, deadAfter) {
      await db
        .insertInto('event_marks')
        .values({ node, sent, alive: now })
        .onConflict((conflict) => conflict.column('node').doUpdateSet({ sent, alive: now }))
        .execute()
      return db.transaction().execute(async (trx) => {
        // another node that takes over waits here, and then finds no row
        const { rows } = await sql<{ sent: number }>`delete from event_marks
          where node <> ${node} and alive <= ${now - deadAfter} returning sent`.execute(trx)
        if (rows.length === 0) return sent
        const earliest = Math.min(sent, ...rows.map((row) => row.sent))
        await sql`update event_marks set sent = ${earliest} where node = ${node}`.execute(trx)
        return earliest
      })
    },
    async remove() {
      await sql`delete from event_marks where node = ${node}`.execute(db)
    },
    async abandon() {
      await sql`update event_marks set alive = 0 where node = ${node}`.execute(db)
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
