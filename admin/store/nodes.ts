/** The last known number of live nodes of a location: a node that starts while Redis is away divides allotments by it. */
import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

interface NodeCounts {
  read(): Promise<number>
  write(live: number): Promise<void>
}

export const nodeCountsOf = (db: Kysely<Tables>, location: string): NodeCounts => ({
  async read() {
    const row = await db
      .selectFrom('nodes')
      .select('live')
      .where('location', '=', location)
      .executeTakeFirst()
    return Math.max(1, Number(row?.live ?? 1))
  },
  async write(live) {
    await db
      .insertInto('nodes')
      .values({ location, live })
      .onConflict((conflict) => conflict.column('location').doUpdateSet({ live }))
      .execute()
  },
})
