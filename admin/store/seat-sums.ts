/**
 * Sums by hour, added to the stored ones. They are stored twice: those of all seats, and of them those of each seat whose
 * name is known. One transaction writes both, so that the seats never have more than all of them.
 */
import { type Kysely, sql } from 'kysely'
import type { Store } from './index.ts'
import type { Tables } from './tables.ts'

/** Adds rows to the stored ones with the same key. */
export async function addRows(
  db: Kysely<Tables>,
  table: keyof Tables,
  key: readonly string[],
  sums: readonly string[],
  rows: readonly object[],
): Promise<void> {
  if (rows.length === 0) return
  const sum = (name: string) => sql`${sql.ref(`${table}.${name}`)} + ${sql.ref(`excluded.${name}`)}`
  await db
    .insertInto(table)
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(key as never[])
        .doUpdateSet(Object.fromEntries(sums.map((name) => [name, sum(name)]))),
    )
    .execute()
}

interface SeatSums<Name extends string> {
  tables: { all: keyof Tables; seats: keyof Tables }
  /** The primary key of `all`; that of `seats` has the seat as well. */
  key: readonly string[]
  sums: readonly Name[]
}

export function seatSums<
  Name extends string,
  Row extends { [N in Name]: number } & { seat: string },
>(store: Pick<Store, 'db'>, { tables, key, sums }: SeatSums<Name>) {
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
        await addRows(trx, tables.all, key, sums, withoutSeats(rows))
        const named = rows.filter(({ seat }) => seat !== '')
        await addRows(trx, tables.seats, [...key, 'seat'], sums, named)
      }),
  }
}
