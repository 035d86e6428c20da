/** Voids wins: their rows stay and no longer count as money (CONTRACT 6). */
import { sql } from 'kysely'
import { addArmDays, armDayOfWin } from './arm-days.ts'
import { audit, type Change } from './audit.ts'
import type { Store } from './index.ts'
import { markStale } from './stale-hours.ts'
import { ledgerTable } from './tables.ts'

interface VoidedWin {
  supplier: string
  /** The events that were reported for the win. */
  events: string[]
}

/**
 * Voids all rows of a decision and writes the audit entry, in one transaction. null: the ledger has no such win for a
 * supplier that `may` accepts, or its hour is about to be deleted. A voided win is left as it is.
 *
 * @param decision the id of the decision
 * @param now milliseconds since the epoch, by the clock of the store
 * @param changeOf who voids it, for the audit trail
 */
export async function voidWin(
  store: Store,
  decision: string,
  now: number,
  may: (supplier: string) => boolean,
  changeOf: (supplier: string) => Change,
): Promise<VoidedWin | null> {
  const ledger = ledgerTable(store.postgres)
  const { outcomes } = store
  const batch = outcomes.begin()
  const voiding = store.db.transaction().execute(async (trx) => {
    // locks the row: no hour gets its final sums meanwhile
    const rolled = await sql<{ sealed: number }>`
      update rolled set sealed = sealed returning sealed`.execute(trx)
    const rows = await trx
      .selectFrom(ledger)
      .selectAll()
      .where('decision', '=', decision)
      .where('status', 'in', ['attributed', 'voided'])
      .where('at', '>=', rolled.rows[0]!.sealed)
      .orderBy('event')
      .execute()
    const supplier = rows[0]?.supplier ?? null
    if (supplier === null || !may(supplier)) return null
    const attributed = rows.filter(({ status }) => status === 'attributed')
    const win = { supplier, events: rows.map(({ event }) => event) }
    if (attributed.length === 0) return win
    await trx
      .updateTable(ledger)
      .set({ status: 'voided' })
      .where('decision', '=', decision)
      .where('status', '=', 'attributed')
      .execute()
    const changed = sql`(select at from ${sql.table(ledger)} where decision = ${decision}) as changed`
    await markStale(changed, sql.lit(now)).execute(trx)
    await addArmDays(
      trx,
      attributed.flatMap((row) => armDayOfWin(row, -1) ?? []),
    )
    const before = attributed.map(({ event, status, bid_id, cleared, margin, currency }) => ({
      ...{ decision, event, status, bid_id, cleared, margin, currency },
    }))
    const after = before.map((row) => ({ ...row, status: 'voided' }))
    await audit(trx, now, { ...changeOf(supplier), before, after })
    const entries = attributed.map(({ event }) => ({ decision, event, body: '{}', at: now }))
    await outcomes.insert(
      trx,
      batch,
      entries.map((entry) => ({ ...entry, kind: 'void' as const })),
      true,
    )
    return win
  })
  return voiding.finally(() => {
    outcomes.refused(batch)
    // the entries are read from the journal
    outcomes.look()
  })
}
