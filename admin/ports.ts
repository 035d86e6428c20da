/** Interfaces between the admin layer and its stores; admin/store implements them for SQLite and PostgreSQL. */

import type { LedgerRow } from './store/tables.ts'

/**
 * Reason of an unattributed win that a caller reported for a bid of another account. An attributed win does not
 * replace it.
 */
export const foreignBid = 'foreign_bid'

/**
 * Tolerated clock skew between nodes in milliseconds: a notice that is older than a decision by more is not its win.
 */
export const clockSlack = 5 * 60_000

/**
 * Selects the rows with the same bid id that are the same win: not older than `since`, and of this supplier or of
 * none.
 */
export interface SameWin {
  since: number
  /** null: any supplier. */
  supplier: string | null
}

export interface Ledger {
  /**
   * Resolves when the row is on disk, or to 'duplicate' if the ledger has the win already. Rejects if the store is
   * lost. With `same`, one win is one row: an attributed row replaces the unattributed row of its win, and an
   * unattributed row is a duplicate of any win with its bid id.
   */
  record(row: LedgerRow, same?: SameWin): Promise<'recorded' | 'duplicate'>
  /** Unattributed rows of any node that this node has replaced by attributed ones since its start. */
  readonly replaced: number
  /**
   * Whether a win with this bid id and event was reported at or after `since`, for any decision. Rejected rows do not
   * count. `only` restricts the status, and the supplier to this one or none.
   */
  seenBid(
    bidId: string,
    event: 'win' | 'billing',
    since: number,
    only?: { status?: 'attributed' | 'unattributed'; supplier?: string | undefined },
  ): Promise<boolean>
}

/** A repeated notice: the ledger stores only the first. */
export interface DuplicateNotice {
  /** '' if the supplier is not known. */
  supplier: string
  event: string
  mode: string
  publisher: string
  domain: string
  seat?: string
  at: number
}

/** The state of one supplier that bid traffic uses. It is pushed, so that the hot path reads no store. */
interface SupplierState {
  id: string
  inactiveSeats: ReadonlySet<string>
  /** By location. A location that is not listed is active and unlimited. */
  datacenters: ReadonlyMap<string, { active: boolean; clientQps: number | null }>
}

export interface DirectorySnapshot {
  suppliers: ReadonlyMap<string, SupplierState>
  /** Integrations held at factor 1; `*` holds all. */
  holds: ReadonlySet<string>
}

/** The caller, from a verified token. Account `*` sees all suppliers. */
export interface Caller {
  subject: string
  account: string
  roles: ReadonlySet<string>
}

export interface TokenVerifier {
  /** Throws a `TokenError` (admin/auth/tokens.ts) for anything but a valid access token. */
  verify(token: string): Promise<Caller> | Caller
  /** Counts a refused call, by the code of its error. */
  refused?(code: string): void
}
