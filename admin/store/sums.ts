/** Expressions over the ledger's money that reports and roll-ups share. */
import { sql } from 'kysely'

/** The exact sum of decimal texts. */
export const exactSum = (postgres: boolean, value: ReturnType<typeof sql>) =>
  postgres
    ? sql<string>`cast(coalesce(sum(${value}), 0) as text)`
    : sql<string>`exact_sum(${value})`

/** The exact sum of a column over the rows that are money: those with a margin. */
export const money = (postgres: boolean, column: string) =>
  exactSum(postgres, sql`case when margin is not null then ${sql.ref(column)} end`)

/** What an auction may pay, as the metrics take it: a price of 1e300 is JSON too, and its square is no number. */
const plausible = sql`case when abs(cast(margin as double precision)) < 1e9 then cast(margin as double precision) else 0 end`

export const margins = sql<number>`coalesce(sum(${plausible}), 0)`
export const squares = sql<number>`coalesce(sum(${plausible} * ${plausible}), 0)`
