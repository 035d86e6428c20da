/** A lease for the roll-up and retention of the ledger, which one node does at a time. It expires if its node dies. */
import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** Milliseconds. */
const length = 300_000

export interface Lease {
  /** False if another node has it. */
  take(): Promise<boolean>
  /** Called before each step: extends the lease when a third of it has passed. False if another node has it. */
  keep(): Promise<boolean>
  release(): Promise<void>
}

export function createLease(db: Kysely<Tables>, now: () => number): Lease {
  let until = 0

  async function set(where: '=' | '<=', than: number, next: number): Promise<boolean> {
    const { numUpdatedRows } = await db
      .updateTable('rolled')
      .set({ lease: next })
      .where('lease', where, than)
      .executeTakeFirst()
    if (numUpdatedRows > 0n) until = next
    return numUpdatedRows > 0n
  }

  return {
    take: () => set('<=', now(), now() + length),
    async keep() {
      return until - now() > (length * 2) / 3 || set('=', until, now() + length)
    },
    async release() {
      await set('=', until, 0)
    },
  }
}
