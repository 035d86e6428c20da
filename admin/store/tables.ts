/** The tables, the same in SQLite and PostgreSQL. Times are milliseconds since the epoch; money is exact decimal text. */
import type { Generated } from 'kysely'

/** 0 or 1: SQLite has no booleans. */
type Flag = number

export interface Tables {
  migrations: { id: string; at: number }
  /** One row, `n` rises with every change that nodes must see. */
  revision: { one: number; n: number }
  suppliers: { id: string; revision: number }
  seats: {
    supplier: string
    name: string
    name_external: string
    is_active: Flag
    /** JSON: QpsEntry[] */
    qps: string
    position: number
  }
  datacenters: {
    supplier: string
    location: string
    client_qps: number | null
    is_active: Flag
    position: number
  }
  holds: { supplier: string; hold: Flag }
  /** By mode: the epoch that all nodes follow, and the packed model that it starts with. */
  models: {
    mode: string
    epoch: number
    rolled_back_at: number | null
    base: Uint8Array | null
  }
  /** One row. */
  model_learning: { one: number; frozen: Flag }
  /** How often the models have forgotten a supplier. */
  model_resets: { supplier: string; times: number }
  audit: {
    id: Generated<number>
    at: number
    who: string
    account: string
    supplier: string
    action: string
    before: string | null
    after: string | null
    request_id: string
  }
  ledger: LedgerRow
  decided: DecidedRow
  ledger_hours: HourRow
  /**
   * One row: hours before `until` are in `ledger_hours`; those before `sealed` have been added up for the last time,
   * their rows may be gone. 0: nothing was added up yet. `lease`: until when one node is at it.
   */
  rolled: { one: number; until: number; sealed: number; lease: number }
  /** Hours whose rows have changed after their end; `changes` rises with each. */
  stale_hours: { hour: number; changes: number }
  users: {
    name: string
    hash: string
    roles: string
    account: string
    created_at: number
    disabled: Generated<Flag>
    last_login: number | null
  }
  refresh_tokens: {
    hash: string
    family: string
    user_name: string
    scope: string
    expires_at: number
    used: Flag
    /** When the user logged in; null: before this was kept. */
    auth_time: number | null
  }
  signing_keys: { kid: string; private_jwk: string; created_at: number }
}

export interface LedgerRow {
  decision: string
  event: string
  bid_id: string
  status: string
  by: string | null
  supplier: string | null
  mode: string | null
  arm: string | null
  publisher: string | null
  domain: string | null
  in_ba: string | null
  out_ba: string | null
  cleared: string
  price_dsp: string | null
  currency: string | null
  margin: string | null
  late: Flag
  over: Flag
  reason: string | null
  decided_at: number | null
  at: number
}

/** Bids decided, added up by hour. */
export interface DecidedRow {
  hour: number
  supplier: string
  mode: string
  arm: string
  publisher: string
  domain: string
  bids: number
  in_sum: number
  out_sum: number
}

/** The ledger added up by hour; '' stands for null. Money is that of rows that have a margin. */
export interface HourRow {
  hour: number
  supplier: string
  /** '' where a bid that came under both events counts once. */
  event: string
  status: string
  mode: string
  arm: string
  publisher: string
  domain: string
  currency: string
  n: number
  bids: number
  priced: number
  late: number
  over_count: number
  cleared: string
  out_ba: string
  margin: string
  /** Sum of margins and of their squares, as far as they are plausible. */
  margins: number
  squares: number
}
