/** The audit trail. Each entry is written in the transaction of its change. */
import type { Transaction } from 'kysely'
import type { Tables } from './tables.ts'

/** Who makes a change, and by which request. */
export interface Author {
  who: string
  account: string
  requestId: string
}

/** What is known of a change before it is made. */
export interface Change extends Author {
  /** `*`: all suppliers; '': none. */
  supplier: string
  action: string
}

export interface AuditEntry extends Change {
  before: unknown
  after: unknown
}

/** Entries of one statement. */
const chunk = 500

export async function auditAll(
  trx: Transaction<Tables>,
  time: number,
  entries: readonly AuditEntry[],
): Promise<void> {
  for (let from = 0; from < entries.length; from += chunk)
    await trx
      .insertInto('audit')
      .values(
        entries.slice(from, from + chunk).map((entry) => ({
          at: time,
          who: entry.who,
          account: entry.account,
          supplier: entry.supplier,
          action: entry.action,
          before: JSON.stringify(entry.before),
          after: JSON.stringify(entry.after),
          request_id: entry.requestId,
        })),
      )
      .execute()
}

/**
 * Writes an entry of the audit trail, in the transaction of what it reports.
 *
 * @param time milliseconds since the epoch
 */
export const audit = (trx: Transaction<Tables>, time: number, entry: AuditEntry): Promise<void> =>
  auditAll(trx, time, [entry])
