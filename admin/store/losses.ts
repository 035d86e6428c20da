/**
 * Loss notices. They have no money, and most bids lose, so only the decision and the time are stored: each loss counts
 * once.
 */
import { type Kysely, sql } from 'kysely'
import { createBatcher } from './batcher.ts'
import { unavailable } from './errors.ts'
import type { Tables } from './tables.ts'

export interface LossStore {
  /** Resolves when the loss is on disk: true, or false if it was reported before. Rejects if the store is lost. */
  record(decision: string, at: number): Promise<boolean>
}

/** Rows of one statement when old ones are deleted. */
const deletedRows = 1000

export function createLosses(db: Kysely<Tables>): LossStore {
  const record = createBatcher(async (losses: { decision: string; at: number }[]) => {
    const first = new Map(
      losses.map((loss) => [loss.decision, loss]).reverse() as [string, (typeof losses)[number]][],
    )
    try {
      const rows = await db
        .insertInto('losses')
        // sorted, so that two nodes do not deadlock on the same rows
        .values([...first.values()].sort((one, other) => (one.decision < other.decision ? -1 : 1)))
        .onConflict((conflict) => conflict.column('decision').doNothing())
        .returning('decision')
        .execute()
      const fresh = new Set(rows.map(({ decision }) => decision))
      return losses.map((loss) => first.get(loss.decision) === loss && fresh.has(loss.decision))
    } catch (error) {
      throw unavailable(error)
    }
  })
  return { record: (decision, at) => record({ decision: decision.toWellFormed(), at }) }
}

/** Deletes some of the losses before `before`; whether there may be more. */
export async function deleteLosses(db: Kysely<Tables>, before: number): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from losses where decision in (
    select decision from losses where at < ${before} limit ${sql.lit(deletedRows)})`.execute(db)
  return Number(numAffectedRows) === deletedRows
}
