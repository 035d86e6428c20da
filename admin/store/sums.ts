/** Sums in the store: counters by key, to which each node adds what it has counted. */
import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** Inserts rows. The sums of a stored row with the same key are added to, or replaced. */
export async function writeSums(
  db: Kysely<Tables>,
  how: 'add' | 'replace',
  { table, key, sums }: { table: keyof Tables; key: readonly string[]; sums: readonly string[] },
  rows: readonly object[],
): Promise<void> {
  if (rows.length === 0) return
  const stored = (name: string) => sql.ref(`${table}.${name}`)
  const given = (name: string) => sql.ref(`excluded.${name}`)
  const value = (name: string) =>
    how === 'add' ? sql`${stored(name)} + ${given(name)}` : given(name)
  await db
    .insertInto(table)
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(key as never[])
        .doUpdateSet(Object.fromEntries(sums.map((name) => [name, value(name)]))),
    )
    .execute()
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

  /** The rows of all seats, where rows that differ in nothing else are merged. */
  function withoutSeats(rows: readonly Row[]): Omit<Row, 'seat'>[] {
    const merged = new Map<string, Row>()
    for (const row of rows) {
      const copy = { ...row, seat: '' }
      const known = merged.get(keyOf(copy))
      if (known === undefined) merged.set(keyOf(copy), copy)
      else merge(known, row)
    }
    return [...merged.values()].map(({ seat: _seat, ...row }) => row)
  }

  return {
    keyOf,
    merge,
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
