import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export interface Migration {
  id: string
  up(db: Transaction<Tables>, postgres: boolean): Promise<void>
}
