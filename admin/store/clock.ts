import { sql } from 'kysely'

/** Milliseconds since the epoch by the clock of PostgreSQL, which all nodes share; a node on SQLite is alone. */
export const clockOf = (postgres: boolean, now: () => number) =>
  postgres
    ? sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`
    : sql<number>`${sql.lit(now())}`
