/** Rows that a statement reads out of one JSON text: an array of arrays. */
import { type RawBuilder, sql } from 'kysely'

type Value = string | number | null

/** JSON that no database refuses: a lone surrogate is no character of UTF-8. */
export const json = (rows: readonly (readonly Value[])[]) =>
  JSON.stringify(rows.map((row) => row.map(whole)))
const whole = (value: Value) => (typeof value === 'string' ? value.toWellFormed() : value)

/** The rows as `j`: each as `value`, numbered from 1 as `n`. */
export const jsonRows = (postgres: boolean, text: string) =>
  postgres
    ? sql`jsonb_array_elements(${text}::jsonb) with ordinality as j(value, n)`
    : sql`(select value, key + 1 as n from json_each(${text})) as j`

/** The member of a row at an index. */
export const jsonMember = (postgres: boolean, at: number, type: string): RawBuilder<unknown> =>
  postgres ? sql`(value ->> ${sql.lit(at)})::${sql.raw(type)}` : sql`value ->> ${sql.lit(at)}`
