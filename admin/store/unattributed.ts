/** Unattributed wins of the ledger whose decisions may become known: they are looked up again. */
import { sql } from 'kysely'
import { day } from './hour.ts'
import type { Store } from './index.ts'
import { ledgerTable } from './tables.ts'

/** An unattributed win. */
export interface UnattributedWin {
  decision: string
  event: string
  bid_id: string
  cleared: string
  price_dsp: string | null
  reason: string
  at: number
  /** What the notice said that no other column has, as JSON. */
  notice: string
}

export interface UnattributedWins {
  /**
   * Wins in pages of at most 200, in the order of their arrival. Those that arrive meanwhile may be among them.
   *
   * @param reasons of `UnattributedWin.reason`, at least one
   * @param from milliseconds since the epoch; wins before it are left out
   */
  pages(reasons: readonly string[], from: number): AsyncGenerator<UnattributedWin[]>
  /**
   * Does nothing if the win has been attributed meanwhile.
   *
   * @param win of a page
   * @param reason the new one
   */
  setReason(win: UnattributedWin, reason: string): Promise<void>
}

/** Rows of one page. */
const pageRows = 200

/**
 * The wins of the ledger that no node could attribute.
 *
 * @param store of all nodes
 */
export function unattributedWins({ wins: db, postgres }: Pick<Store, 'wins' | 'postgres'>) {
  const ledger = ledgerTable(postgres)
  /** Skips the partitions of other days. */
  const dayFrom = (time: number) =>
    postgres ? sql`day >= ${sql.lit(Math.floor(time / day))}` : sql`true`
  return {
    async *pages(reasons, from) {
      for (let last = { at: from - 1, decision: '', event: '' }; ; ) {
        const { rows } = await sql<UnattributedWin>`
          select decision, event, bid_id, cleared, price_dsp, reason, at, notice from ${sql.table(ledger)}
          where status = 'unattributed' and reason in (${sql.join(reasons.map((reason) => sql.lit(reason)))})
            and notice is not null and at >= ${from} and ${dayFrom(from)}
            and (at, decision, event) > (${last.at}, ${last.decision}, ${last.event})
          order by at, decision, event limit ${sql.lit(pageRows)}`.execute(db)
        if (rows.length > 0) yield rows
        const end = rows.at(-1)
        if (end === undefined || rows.length < pageRows) return
        last = end
      }
    },
    async setReason({ decision, event, at: time }, reason) {
      await sql`update ${sql.table(ledger)} set reason = ${reason}
        where decision = ${decision} and event = ${event} and at = ${time}
          and status = 'unattributed' and ${dayFrom(time)}`.execute(db)
    },
  } satisfies UnattributedWins
}
