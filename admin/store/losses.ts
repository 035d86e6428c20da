/**
 * Loss notices. They have no money, and most bids lose, so only the decision and the time are stored: each loss counts
 * once.
 */
import { type Kysely, sql } from 'kysely'
import { createBatcher } from './batcher.ts'
import { unavailable } from './errors.ts'
import { json, jsonMember, jsonRows } from './ledger-input.ts'
import type { Outcomes } from './outcomes.ts'
import type { Tables } from './tables.ts'

/** Rows of one statement when old ones are deleted. */
const deletedRows = 1000

interface Loss {
  decision: string
  at: number
  /** What follows, as JSON; null: nothing. */
  outcome: string | null
}

export interface LossStore {
  /**
   * Resolves when the loss is on disk: true, or false if it was reported before.
   *
   * @param decision id of the decision; of a loss that is not attributed: a text that its notices have in common
   * @param time milliseconds since the epoch
   * @param outcome what follows, as JSON. The caller applies it in the turn of the event loop in which it gets true. After an
   * error, the journal has it.
   * @throws StoreError if the store is lost
   */
  record(decision: string, time: number, outcome?: string): Promise<boolean>
}

/** Deletes some of the losses before `before`; whether there may be more. */
export async function deleteLosses(db: Kysely<Tables>, before: number): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from losses where decision in (
    select decision from losses where at < ${before} limit ${sql.lit(deletedRows)})`.execute(db)
  return Number(numAffectedRows) === deletedRows
}

const keysOf = (rows: readonly { decision: string }[]) =>
  new Set(rows.map(({ decision }) => decision))

export function createLosses(db: Kysely<Tables>, postgres: boolean, outcomes: Outcomes): LossStore {
  const entryOf = ({ decision, at: time, outcome }: Loss) =>
    outcome === null
      ? []
      : [{ kind: 'loss' as const, decision, event: '', body: outcome, at: time }]

  /** PostgreSQL: one statement writes losses and journal. */
  async function insertTogether(losses: readonly Loss[], batch: string): Promise<Set<string>> {
    const text = json(
      losses.map(({ decision, at: time, outcome }) => [decision, Math.floor(time), outcome]),
    )
    const member = (index: number, type: string) => jsonMember(postgres, index, type)
    const { rows } = await sql<{ decision: string }>`
      with input as (select ${member(0, 'text')} as decision, ${member(1, 'bigint')} as at,
          ${member(2, 'text')} as outcome from ${jsonRows(postgres, text)}),
        fresh as (insert into losses (decision, at) select decision, at from input
          on conflict (decision) do nothing returning decision),
        journal as (insert into outcomes (batch, place, node, applied, at, kind, decision, event, body)
          select ${batch}, row_number() over (), ${outcomes.node}, 0, a.at, 'loss', a.decision, '', a.outcome
          from fresh join input as a on a.decision = fresh.decision where a.outcome is not null)
      select decision from fresh`.execute(db)
    return keysOf(rows)
  }

  const insertInTurn = (losses: readonly Loss[], batch: string) =>
    db.transaction().execute(async (trx) => {
      const rows = await trx
        .insertInto('losses')
        .values(losses.map(({ decision, at: time }) => ({ decision, at: time })))
        .onConflict((conflict) => conflict.column('decision').doNothing())
        .returning('decision')
        .execute()
      const fresh = keysOf(rows)
      const entries = losses.filter(({ decision }) => fresh.has(decision)).flatMap(entryOf)
      await outcomes.insert(trx, batch, entries)
      return fresh
    })

  const record = createBatcher(async (losses: Loss[]) => {
    const first = new Map(losses.map((loss) => [loss.decision, loss] as const).reverse())
    // sorted, so that two nodes do not deadlock on the same rows
    const rows = [...first.values()].sort((one, other) => (one.decision < other.decision ? -1 : 1))
    const batch = outcomes.begin()
    try {
      const fresh = await (postgres ? insertTogether : insertInTurn)(rows, batch)
      const followed = rows.filter(({ decision }) => fresh.has(decision)).flatMap(entryOf)
      outcomes.committed(
        batch,
        followed.map((entry) => ({ ...entry, row: null })),
      )
      return losses.map((loss) => first.get(loss.decision) === loss && fresh.has(loss.decision))
    } catch (error) {
      outcomes.unanswered(batch)
      throw unavailable(error)
    }
  })
  return {
    record: (decision, time, outcome) =>
      record({ decision: decision.toWellFormed(), at: time, outcome: outcome ?? null }),
  }
}
