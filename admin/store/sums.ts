/** SQL expressions for money that reports and roll-ups share. */
import { sql } from 'kysely'

/** The exact sum of decimal texts. */
export const exactSum = (postgres: boolean, value: ReturnType<typeof sql>) =>
  postgres
    ? sql<string>`cast(coalesce(sum(${value}), 0) as text)`
    : sql<string>`exact_sum(${value})`

/** The exact sum of a column over the rows with a margin, which are those that count money. */
export const money = (postgres: boolean, column: string) =>
  exactSum(postgres, sql`case when margin is not null then ${sql.ref(column)} end`)

/**
 * Limits a margin as the metrics do: 1e300 is a valid price, and its square is infinite; 1e-300 is one, too, and PostgreSQL
 * refuses its square, and the sum of every other row with it.
 */
const plausible = sql`case when abs(margin) between 1e-9 and 1e9 then cast(margin as double precision) else 0 end`

export const margins = sql<number>`coalesce(sum(${plausible}), 0)`
export const squares = sql<number>`coalesce(sum(${plausible} * ${plausible}), 0)`
