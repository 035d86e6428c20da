/** The work on the ledger's hours, which one node has at a time. A lease ends by itself where its node died. */
import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** Milliseconds. */
const length = 300_000

export interface Lease {
  /** False: another node has it. */
  take(): Promise<boolean>
  /** Before each piece of work: asks for more time when a third is gone. False: another node has it by now. */
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
