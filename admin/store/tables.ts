/**
 * The tables, the same in SQLite and PostgreSQL. Times are milliseconds since the epoch; money is exact decimal text.
 */
import { type Generated, sql } from 'kysely'
import type { FacetName } from '../../opd/shared/facets.ts'
import type { MinuteRow } from './minute-sums.ts'

/** An allotment of a seat in one data center, in bid requests per second; null: no limit (SERVICE 2). */
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
  /** Bid requests per second; null: no limit. */
  client_qps: number | null
  is_active: boolean
}

/** 0 or 1: SQLite has no booleans. */
type Flag = number

export interface Tables {
  migrations: { id: string; at: number }
  /** One row. `n` increases with every change that nodes must see. */
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
  /** What operators have decided of endpoints, until a time. */
  endpoint_overrides: {
    supplier: string
    endpoint: string
    state: 'out' | 'in'
    until: number
    who: string
  }
  /** Suppliers of the API, also deleted ones (`block` null). `n`: the revision at the last change. */
  supplier_blocks: {
    supplier: string
    account: string | null
    version: number
    n: number
    /** JSON */
    block: string | null
  }
  /** Every version of them. `account`: that of the author. */
  supplier_versions: {
    supplier: string
    version: number
    at: number
    who: string
    account: string
    action: string
    request_id: string
    block: string | null
  }
  /** By mode: the epoch of all nodes, and the packed model at its start. */
  models: {
    mode: string
    epoch: number
    rolled_back_at: number | null
    base: Uint8Array | null
  }
  /** One row. */
  model_learning: { one: number; frozen: Flag }
  /** How many times the models have forgotten a supplier. */
  model_resets: { supplier: string; times: number }
  /** Loss notices, each once; `decision` as in the ledger. */
  losses: { decision: string; at: number }
  /** What follows committed rows and has not followed yet (outcomes.ts). */
  outcomes: {
    batch: string
    place: number
    node: string
    applied: Flag
    at: number
    kind: string
    decision: string
    event: string
    body: string
  }
  /** Processes that work on the outcomes, and when they were last alive. */
  outcome_nodes: { node: string; alive: number }
  /** Model updates that a process has not sent to the other nodes yet (unsent-deltas.ts). */
  unsent_deltas: { id: string; node: string; mode: string; at: number; bytes: Uint8Array }
  /** Live nodes of a location, as last known. */
  nodes: { location: string; live: number }
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
  /** Of `decided` and `ledger_hours`, the part of each seat. Without a row here, the seat is not known. */
  decided_seats: WithSeat<DecidedRow>
  ledger_hour_seats: WithSeat<HourRow>
  /** Of `decided` and `ledger_hours`, the part of each known value of each dimension. */
  decided_facets: OfFacet<DecidedRow>
  ledger_hour_facets: OfFacet<HourRow>
  /**
   * One row. Hours before `until` are in `ledger_hours`. Hours before `sealed` have their final sums, and their rows
   * may have been deleted. 0: nothing was summed yet. `lease`: the time until which a node has the lease.
   */
  rolled: { one: number; until: number; sealed: number; lease: number }
  /** Hours whose rows have changed after their end; `changes` increases with each change. */
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
    /** Time of the log-in. */
    auth_time: number
  }
  /** What each node publishes for the console, as JSON in parts. */
  node_figures: { node: string; part: number; at: number; figures: string }
  /** Check values of what must be equal on all nodes: two digests, and all values as JSON. */
  node_fingerprints: {
    node: string
    at: number
    keys: string
    configuration: string
    details: string
  }
  arm_days: ArmDayRow
  minutes: MinuteRow
  daily_reports: { day: string; sent: Flag; at: number }
  alerts: AlertRow
  /** One row. `failures` of the receiver in a row, `next`: when it is called again, `fault`: why it failed last. */
  alert_rounds: { one: number; at: number; failures: number; next: number; fault: string | null }
  signing_keys: { kid: string; private_jwk: string; created_at: number }
}

/** What was wrong with a supplier, or with a node (`supplier` is '' then). */
export interface AlertRow {
  id: Generated<number>
  rule: string
  supplier: string
  node: string
  level: 'bad' | 'warn'
  text: string
  fix: string | null
  began: number
  /** When it had lasted long enough to be an alert; null: not yet. */
  opened: number | null
  /** Since when its condition has not been met; null: it is met. */
  gone: number | null
  ended: number | null
  /** A guard keeps the prices of the supplier. */
  acts: Generated<Flag>
  /** 1: the receiver has its begin, 2: and its end. */
  sent: Generated<number>
}

/**
 * The table of the ledger; on PostgreSQL it is partitioned by day.
 *
 * @param postgres otherwise SQLite
 */
export const ledgerTable = (postgres: boolean) =>
  // the type has the columns of both; `day` is internal to the ledger
  (postgres ? 'ledger_days' : 'ledger') as 'ledger'

/** A win notice. Money is exact decimal text, CPM in `currency`. */
export interface LedgerRow {
  /** Identity: one row per decision and event. For an unattributed win it is `bid:<id>`. */
  decision: string
  event: string
  bid_id: string
  /** `attributed`, `unattributed`, `rejected` or `voided`. */
  status: string
  by: string | null
  supplier: string | null
  mode: string | null
  arm: string | null
  /** How the bid came to be priced: `proxy`, `standalone` or `agent`. */
  via: string | null
  publisher: string | null
  domain: string | null
  seat: string | null
  country: string | null
  device: string | null
  format: string | null
  size: string | null
  deal: string | null
  in_ba: string | null
  out_ba: string | null
  cleared: string
  price_dsp: string | null
  currency: string | null
  /**
   * Revenue minus cleared price; null if the row counts no money (rejected, unattributed, test, or the event that is
   * not money).
   */
  margin: string | null
  late: Flag
  over: Flag
  /** Whether the exchange applied the lower price of an agent call; null: there was none. */
  applied: Flag | null
  reason: string | null
  decided_at: number | null
  at: number
  /** Of an unattributed win: what its notice said that no other column has, as JSON. */
  notice?: string | null | undefined
}

export type WithSeat<Row> = Row & { seat: string }

/** A row of one value of a dimension. Publisher and domain are not distinguished: that would be a row for almost each bid. */
export type OfFacet<Row> = Omit<Row, 'publisher' | 'domain'> & {
  dimension: FacetName
  value: string
}

/** Decided bids, summed by hour. */
export interface DecidedRow {
  hour: number
  supplier: string
  mode: string
  arm: string
  via: string
  publisher: string
  domain: string
  bids: number
  in_sum: number
  out_sum: number
}

/** Sums of wins. Money is CPM, of the rows that count it. */
export interface SummedWins {
  /** Rows of the ledger, and those of them that count money. */
  n: number
  priced: number
  margins: number
  squares: number
  spends: number
  spend_squares: number
}

/**
 * Bids and wins of the arms that are compared, by day of UTC (its number since 1970). Money is CPM in `currency`, without
 * implausible amounts; `spend` is cleared price plus margin.
 */
interface ArmDayRow extends SummedWins {
  day: number
  supplier: string
  /** '' for bids. */
  event: string
  mode: string
  arm: string
  /** '' for bids. */
  currency: string
  bids: number
  /** What OPD took off: in_ba minus out_ba. */
  reduced: number
}

/** The ledger, summed by hour; '' replaces null. Money is that of rows with a margin. */
export interface HourRow {
  hour: number
  supplier: string
  /** '' for bids that count once for both events. */
  event: string
  status: string
  mode: string
  arm: string
  via: string
  publisher: string
  domain: string
  currency: string
  n: number
  bids: number
  priced: number
  late: number
  over_count: number
  /** Wins of bids that an agent call had lowered, and those of them whose lower price was not applied. */
  lowered: number
  unapplied: number
  cleared: string
  out_ba: string
  margin: string
  /** Sums of margins, of spend (cleared price plus margin), and of their squares, without implausible ones. */
  margins: number
  squares: number
  spends: number
  spend_squares: number
}

/**
 * A text that both databases accept: PostgreSQL rejects NUL and lone surrogates.
 *
 * @param text of any length; each refused character becomes U+FFFD
 */
export const storable = (text: string) => text.replaceAll('\0', '\uFFFD').toWellFormed()

/** Milliseconds since the epoch by the clock of PostgreSQL, which all nodes share; a node on SQLite is alone. */
export const clockOf = (postgres: boolean, now: () => number) =>
  postgres
    ? sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`
    : sql<number>`${sql.lit(now())}`
