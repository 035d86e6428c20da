/** Sums in the store: counters by key, to which each node adds what it has counted. */
import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** Of arrays in the order of the columns, or of objects in PostgreSQL, which then knows the types of the columns. */
function rowsFrom(
  isPostgres: boolean,
  table: keyof Tables,
  columns: readonly string[],
  rows: readonly object[],
) {
  if (isPostgres)
    return sql`select ${sql.join(columns.map((name) => sql.ref(name)))}
      from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)})`
  const values = rows.map((row) => columns.map((name) => row[name as keyof object]))
  const fields = columns.map((_name, at) => sql`value->>${sql.lit(at)}`)
  // Without a condition SQLite takes `on` for that of a join.
  return sql`select ${sql.join(fields)} from json_each(${JSON.stringify(values)}) where true`
}

/**
 * Inserts rows, all with the same columns. The sums of a stored row with the same key are added to, or replaced. All rows are
 * one parameter: a statement with a parameter for each value takes 15 us a row to build.
 */
export async function writeSums(
  db: Kysely<Tables>,
  how: 'add' | 'replace',
  { table, key, sums }: { table: keyof Tables; key: readonly string[]; sums: readonly string[] },
  rows: readonly object[],
): Promise<void> {
  if (rows.length === 0) return
  const columns = Object.keys(rows[0]!)
  const names = (of: readonly string[]) => sql.join(of.map((name) => sql.ref(name)))
  const given = (name: string) => sql`${sql.ref(name)} = ${sql.ref(`excluded.${name}`)}`
  const changes = sums.map((name) =>
    how === 'add' ? sql`${given(name)} + ${sql.ref(`${table}.${name}`)}` : given(name),
  )
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  await sql`insert into ${sql.table(table)} (${names(columns)})
    ${rowsFrom(isPostgres, table, columns, rows)}
    on conflict (${names(key)}) do update set ${sql.join(changes)}`.execute(db)
}

/**
 * Sums by hour are stored twice: those of all seats, and of them those of each seat whose name is known. One transaction
 * writes both, so that the seats never have more than all of them.
 */
interface SeatSums<Name extends string> {
  tables: { all: keyof Tables; seats: keyof Tables }
  /** The primary key of `all`; that of `seats` has the seat as well. */
  key: readonly string[]
  sums: readonly Name[]
}

/** `also` writes what belongs to the same rows, in the same transaction. */
export function seatSums<
  Name extends string,
  Row extends { [N in Name]: number } & { seat: string },
>(
  store: { db: Kysely<Tables> },
  { tables, key, sums }: SeatSums<Name>,
  also: (trx: Kysely<Tables>, rows: readonly Row[]) => Promise<void> = async () => {},
) {
  // Storable texts have no NUL, so the key is unambiguous.
  const keyOf = (row: Row) => [...key, 'seat'].map((name) => row[name as keyof Row]).join('\0')

  function merge(row: Row, other: Row): void {
    for (const name of sums) (row[name] as number) += other[name]
  }

  const isSame = (row: Row, other: Row) =>
    key.every((name) => row[name as keyof Row] === other[name as keyof Row])

  /** The rows of all seats, in the order of their keys: rows that differ in nothing else are neighbours, and are merged. */
  function withoutSeats(rows: readonly Row[]): Omit<Row, 'seat'>[] {
    const merged: Row[] = []
    for (const row of rows) {
      const last = merged.at(-1)
      if (last !== undefined && isSame(row, last)) merge(last, row)
      else merged.push({ ...row })
    }
    return merged.map(({ seat: _seat, ...row }) => row)
  }

  return {
    keyOf,
    merge,
    /** `rows`: in the order of their keys. */
    write: (rows: readonly Row[]) =>
      store.db.transaction().execute(async (trx) => {
        await writeSums(trx, 'add', { table: tables.all, key, sums }, withoutSeats(rows))
        const named = rows.filter(({ seat }) => seat !== '')
        const seats = { table: tables.seats, key: [...key, 'seat'], sums }
        await writeSums(trx, 'add', seats, named)
        await also(trx, rows)
      }),
  }
}
