import { sql, type Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export interface Migration {
  id: string
  /** Whether it does more than add, so that the version before cannot run on the result. Default: false. */
  required?: boolean
  up(db: Transaction<Tables>, postgres: boolean): Promise<void>
}

/** A migration of SQL statements. */
export const migration = (
  id: string,
  statements: (postgres: boolean) => readonly string[],
): Migration => ({
  id,
  async up(db, postgres) {
    for (const statement of statements(postgres)) await sql.raw(statement).execute(db)
  },
})
