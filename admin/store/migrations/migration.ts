import type { Transaction } from 'kysely'
import type { Tables } from '../tables.ts'

export interface Migration {
  id: string
  /** Whether it does more than add, so that the version before cannot run on the result. Default: false. */
  required?: boolean
  /** `now` in milliseconds. */
  up(db: Transaction<Tables>, postgres: boolean, now: number): Promise<void>
}
