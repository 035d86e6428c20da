import { sql, type Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export interface Migration {
  id: string
  /** Whether it does more than add, so that the version before cannot run on the result. Default: false. */
  required?: boolean
  /** `now` in milliseconds. */
  up(db: Transaction<Tables>, postgres: boolean, now: number): Promise<void>
}

/** A migration of SQL statements. */
export const migration = (
  id: string,
  statements: (postgres: boolean, now: number) => readonly string[],
): Migration => ({
  id,
  async up(db, postgres, now) {
    for (const statement of statements(postgres, now)) await sql.raw(statement).execute(db)
  },
})
