/** What the admin rooms need from stores; admin/store implements it for SQLite and PostgreSQL. */

export interface QpsEntry {
  location: string
  value: number | null
}
export interface Seat {
  name: string
  name_external: string
  is_active: boolean
  qps: QpsEntry[]
}
export interface DataCenter {
  location: string
  client_qps: number | null
  is_active: boolean
}

/** One win notice as the ledger keeps it. Money is exact decimal text, CPM in `currency`. */
export interface LedgerEntry {
  /** Identity: one row per decision and event. A bare, unattributed bid id stands as `bid:<id>`. */
  decision: string
  event: 'win' | 'billing'
  bidId: string
  status: 'attributed' | 'unattributed' | 'rejected'
  by: 'context' | 'bid_log' | null
  supplier: string | null
  mode: string | null
  arm: string | null
  publisher: string | null
  domain: string | null
  inBa: string | null
  outBa: string | null
  cleared: string
  priceDsp: string | null
  currency: string | null
  /** Revenue less cleared price, exact decimal text; null where it is not money (rejected, unattributed, not the money event, test). */
  margin: string | null
  late: boolean
  over: boolean
  reason: string | null
  /** Milliseconds since the epoch. */
  decidedAt: number | null
  at: number
}

/** The reason of an unattributed win that a caller reported of another account's bid: no attributed win replaces it. */
export const foreignBid = 'foreign_bid'

/** Milliseconds that clocks of nodes may differ by: a notice this much older than a decision is not its win. */
export const clockSlack = 5000

/** Which rows under the bid id of an entry are the same win: none before `since`, those of the supplier or of none. */
export interface SameWin {
  since: number
  /** null: of any supplier. */
  supplier: string | null
}

export interface Ledger {
  /**
   * Resolves when the row is on disk, or to 'duplicate' when the ledger has the win already. Rejects when the store is
   * lost. With `same`, one win is one row: an attributed row replaces the unattributed one of its win, and an
   * unattributed one is a duplicate of any win under its bid id.
   */
  record(entry: LedgerEntry, same?: SameWin): Promise<'recorded' | 'duplicate'>
  /** Unattributed rows, recorded by any node, that this node has replaced since its start: their wins have other rows. */
  readonly replaced: number
  /**
   * Whether a win under the bid id was reported at or after `since` (any decision, that event);
   * rejected rows never count. `only` narrows to one status; `supplier` to rows of it or of none.
   */
  seenBid(
    bidId: string,
    event: 'win' | 'billing',
    since: number,
    only?: { status?: 'attributed' | 'unattributed'; supplier?: string | undefined },
  ): Promise<boolean>
}

/** A notice that came again: the ledger keeps the first alone. */
export interface DuplicateNotice {
  /** '' where nobody knows. */
  supplier: string
  event: string
  mode: string
  publisher: string
  domain: string
  at: number
}

/** What bid traffic needs to know of one supplier; pushed, never asked for on the hot path. */
export interface SupplierState {
  id: string
  inactiveSeats: ReadonlySet<string>
  /** By location; a location that is not listed is active and unlimited. */
  datacenters: ReadonlyMap<string, { active: boolean; clientQps: number | null }>
}

export interface DirectorySnapshot {
  suppliers: ReadonlyMap<string, SupplierState>
  /** Integrations held at factor 1; `*` holds all. */
  holds: ReadonlySet<string>
}

/** Who calls, as a verified token says. Account `*` sees all. */
export interface Caller {
  subject: string
  account: string
  roles: ReadonlySet<string>
}

export interface TokenVerifier {
  /** Throws `TokenError` (admin/auth/errors.ts) for anything that is not a valid access token of ours. */
  verify(token: string): Promise<Caller> | Caller
}
