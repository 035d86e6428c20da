/** Passes rows to a statement as one JSON text: an array of arrays. */
import { type RawBuilder, sql } from 'kysely'

type Value = string | number | null

/** Databases reject lone surrogates, which UTF-8 cannot encode, so they are replaced. */
export const json = (rows: readonly (readonly Value[])[]) =>
  JSON.stringify(rows.map((row) => row.map(whole)))
const whole = (value: Value) => (typeof value === 'string' ? value.toWellFormed() : value)

/** The rows as table `j`: each as `value`, numbered from 1 as `n`. */
export const jsonRows = (postgres: boolean, text: string) =>
  postgres
    ? sql`jsonb_array_elements(${text}::jsonb) with ordinality as j(value, n)`
    : sql`(select value, key + 1 as n from json_each(${text})) as j`

/** The member of a row at an index. */
export const jsonMember = (postgres: boolean, at: number, type: string): RawBuilder<unknown> =>
  postgres ? sql`(value ->> ${sql.lit(at)})::${sql.raw(type)}` : sql`value ->> ${sql.lit(at)}`
