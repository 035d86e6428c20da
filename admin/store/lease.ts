/** Only one node at a time sums and deletes rows. The lease expires if its node ends without releasing it. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { clockOf, type Tables } from './tables.ts'

/** Milliseconds. */
const leaseLife = 300_000

interface Lease {
  /** False if another node has it. */
  takeLease(): Promise<boolean>
  /** Called before each step: extends the lease when a third of it has passed. False if another node has it. */
  keep(): Promise<boolean>
  release(): Promise<void>
}

/** Times are those of the clock of PostgreSQL, so that the clocks of the nodes may differ. */
export function createLease(db: Kysely<Tables>, postgres: boolean, now: () => number): Lease {
  let until = 0
  let setAt = 0
  const clock = () => clockOf(postgres, now)

  async function set(free: RawBuilder<unknown>): Promise<boolean> {
    const time = now()
    const { rows } = await sql<{ lease: number }>`
      update rolled set lease = ${clock()} + ${sql.lit(leaseLife)}
      where ${free} returning lease`.execute(db)
    const [row] = rows
    if (row === undefined) return false
    until = row.lease
    setAt = time
    return true
  }

  return {
    takeLease: () => set(sql`lease <= ${clock()}`),
    async keep() {
      return now() - setAt < leaseLife / 3 || set(sql`lease = ${until}`)
    },
    async release() {
      await sql`update rolled set lease = 0 where lease = ${until}`.execute(db)
    },
  }
}
