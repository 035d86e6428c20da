/**
 * Model updates that a process has not sent to the other nodes yet. They are stored in the transaction that settles what they were
 * trained with, so an outcome is always in the journal, in a stored update, or in the stream of all nodes. The updates of
 * a process that ended are sent by the one that takes over. It may send one again, which every node merges once.
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Mode } from '../../opd/shared/arms.ts'
import type { UnsentDelta } from '../../opd/state/model-store.ts'
import type { Tables } from './tables.ts'

export class StoredDeltas {
  /** The process of the journal. */
  private readonly node: string
  private ids: ReadonlySet<string> = new Set()
  /** Updates of a process that ended were taken over, and are to be read. */
  private isTakenOver = false

  constructor(node: string) {
    this.node = node
  }

  get isEmpty(): boolean {
    return this.ids.size === 0
  }

  /** Whether one is stored that the other nodes have by now. */
  hasSent(unsent: readonly UnsentDelta[]): boolean {
    const left = new Set(unsent.map(({ id }) => id))
    return this.ids.difference(left).size > 0
  }

  /**
   * Stores those that are not stored yet, and deletes those that were sent.
   *
   * @returns a function to be called when the transaction is committed
   */
  async write(
    trx: Transaction<Tables>,
    unsent: readonly UnsentDelta[],
    time: number,
  ): Promise<() => void> {
    const { node } = this
    const left = new Set(unsent.map(({ id }) => id))
    const sent = [...this.ids.difference(left)]
    const rows = unsent
      .filter(({ id }) => !this.ids.has(id))
      .map(({ id, mode, bytes }) => ({ id, node, mode, at: Math.floor(time), bytes: bytes() }))
    // A transaction whose commit was not answered is repeated.
    if (rows.length > 0)
      await trx
        .insertInto('unsent_deltas')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    if (sent.length > 0) await trx.deleteFrom('unsent_deltas').where('id', 'in', sent).execute()
    return () => {
      this.ids = left
    }
  }

  /** Takes over those of another process, in the transaction that takes over its journal. */
  async takeOver(trx: Transaction<Tables>, node: string): Promise<void> {
    const { numUpdatedRows } = await trx
      .updateTable('unsent_deltas')
      .set({ node: this.node })
      .where('node', '=', node)
      .executeTakeFirstOrThrow()
    if (numUpdatedRows > 0n) this.isTakenOver = true
  }

  /** Reads those that were taken over, once, in the order in which they were trained. */
  async readTakenOver(db: Kysely<Tables>): Promise<{ mode: Mode; bytes: Uint8Array }[]> {
    if (!this.isTakenOver) return []
    const rows = await db
      .selectFrom('unsent_deltas')
      .select(['id', 'mode', 'bytes'])
      .where('node', '=', this.node)
      .orderBy('at')
      .execute()
    this.isTakenOver = false
    const found = rows.filter(({ id }) => !this.ids.has(id))
    this.ids = this.ids.union(new Set(found.map(({ id }) => id)))
    return found.map(({ mode, bytes }) => ({ mode: mode as Mode, bytes }))
  }
}

/** Deletes those of before `before`, milliseconds since the epoch: no node has taken them over, or Redis was away for so long. */
export async function deleteUnsentDeltas(db: Kysely<Tables>, before: number): Promise<void> {
  await sql`delete from unsent_deltas where at < ${before}`.execute(db)
}
