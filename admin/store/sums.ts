/** Sums in the store: counters by key, to which each node adds what it has counted. */
import { CompiledQuery, type Kysely, PostgresAdapter } from 'kysely'
import { EachRow } from './sqlite.ts'
import type { Tables } from './tables.ts'

const quoted = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ')

/**
 * Inserts rows, all with the same columns, or none of them. The sums of a stored row with the same key are added to, or replaced.
 * All rows are one parameter: a statement with a parameter for each value takes 15 us a row to build.
 */
export async function writeSums(
  db: Kysely<Tables>,
  how: 'add' | 'replace',
  { table, key, sums }: { table: keyof Tables; key: readonly string[]; sums: readonly string[] },
  rows: readonly object[],
): Promise<void> {
  if (rows.length === 0) return
  const columns = Object.keys(rows[0]!)
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  const changes = sums.map((name) =>
    how === 'add'
      ? `"${name}" = "${table}"."${name}" + excluded."${name}"`
      : `"${name}" = excluded."${name}"`,
  )
  // PostgreSQL knows the types of the columns by those of the table.
  const source = isPostgres
    ? `select ${quoted(columns)} from json_populate_recordset(null::"${table}", $1)`
    : `values (${columns.map(() => '?').join(', ')})`
  // As text: Kysely's tree of a statement takes longer than the statement.
  const text = `insert into "${table}" (${quoted(columns)}) ${source}
    on conflict (${quoted(key)}) do update set ${changes.join(', ')}`
  const given = isPostgres ? JSON.stringify(rows) : new EachRow(rows)
  await db.executeQuery(CompiledQuery.raw(text, [given]))
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
  const names = [...key, 'seat'] as (keyof Row)[]

  /** Storable texts have no NUL, so the key is unambiguous. */
  function keyOf(row: Row): string {
    let text = ''
    for (const name of names) text += `${row[name] as string | number}\0`
    return text
  }

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
