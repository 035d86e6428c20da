/** The last known number of live nodes of a location: a node that starts while Redis is away divides allotments by it. */
import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

interface NodeCounts {
  read(): Promise<number>
  /** @param live nodes of the location, this one included */
  write(live: number): Promise<void>
}

/**
 * The number of live nodes, as it was last known.
 *
 * @param db of all nodes
 * @param location `location` of the configuration
 */
export const nodeCountsOf = (db: Kysely<Tables>, location: string): NodeCounts => ({
  async read() {
    const row = await db
      .selectFrom('nodes')
      .select('live')
      .where('location', '=', location)
      .executeTakeFirst()
    return Math.max(1, row?.live ?? 1)
  },
  async write(live) {
    await sql`insert into nodes (location, live) values (${location}, ${live})
      on conflict (location) do update set live = excluded.live`.execute(db)
  },
})
