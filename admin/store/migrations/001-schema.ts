/**
 * The schema, the same tables in SQLite and PostgreSQL. Nothing is released yet: until the first tag a change of the
 * schema is made here, afterwards it is a migration of its own. Names that are keywords of SQL are quoted.
 */
import { migration } from './migration.ts'

/** Exact decimals. SQLite stores them as text. */
const money = (postgres: boolean) => (postgres ? 'numeric' : 'text')

/** Suppliers of the file and of the API, their seats and data centers, and the audit trail. */
const management = (postgres: boolean) => [
  'create table revision (one integer primary key, n bigint not null)',
  'insert into revision (one, n) values (1, 1)',
  'create table suppliers (id text primary key, revision bigint not null)',
  `create table seats (
    supplier text not null, name text not null, name_external text not null,
    is_active integer not null, qps text not null, position integer not null,
    constraint seats_key primary key (supplier, name))`,
  `create table datacenters (
    supplier text not null, location text not null, client_qps bigint,
    is_active integer not null, position integer not null,
    constraint datacenters_key primary key (supplier, location))`,
  'create table holds (supplier text primary key, hold integer not null)',
  `create table endpoint_overrides (supplier text not null, endpoint text not null, state text not null, until bigint not null,
    who text not null, primary key (supplier, endpoint))`,
  `create table audit (
    id ${postgres ? 'bigserial primary key' : 'integer primary key autoincrement'},
    at bigint not null, who text not null, account text not null, supplier text not null,
    action text not null, "before" text, "after" text, request_id text not null)`,
  /*
   * `n` is the revision of the store at the change: nodes read what is newer than they know. `block` is JSON, null if the
   * supplier is deleted. A row stays for good: it reserves the id for its account (CONTRACT 14).
   */
  `create table supplier_blocks (
    supplier text primary key, account text, version bigint not null, n bigint not null, block text)`,
  'create index supplier_blocks_by_n on supplier_blocks (n)',
  `create table supplier_versions (
    supplier text not null, version bigint not null, at bigint not null, who text not null,
    account text not null, action text not null, request_id text not null, block text,
    constraint supplier_versions_key primary key (supplier, version))`,
]

/** Users of the embedded token endpoint, hashes of its refresh tokens, and its signing keys. */
const auth = [
  `create table users (
    name text primary key, hash text not null, roles text not null, account text not null,
    created_at bigint not null, disabled integer default 0 not null, last_login bigint)`,
  `create table refresh_tokens (
    hash text primary key, family text not null, user_name text not null, scope text not null,
    expires_at bigint not null, used integer not null, auth_time bigint not null)`,
  'create index refresh_family on refresh_tokens (family)',
  'create index refresh_user on refresh_tokens (user_name)',
  // A client that refreshes every five minutes leaves 8,600 tokens in a month; this index finds expired ones.
  'create index refresh_expiry on refresh_tokens (expires_at)',
  `create table signing_keys (
    kid text primary key, private_jwk text not null, created_at bigint not null)`,
]

/**
 * In PostgreSQL the ledger is partitioned by the day of the decision, so that retention drops days. `notice`: what the
 * notice of an unattributed win said, by which the win is looked up again.
 */
const ledger = (postgres: boolean) => {
  const table = postgres ? 'ledger_days' : 'ledger'
  const day = postgres ? ', day' : ''
  return [
    `create table ${table} (
      decision text not null, event text not null, bid_id text not null, status text not null,
      "by" text, supplier text, mode text, arm text, via text, publisher text, domain text, seat text,
      country text, device text, format text, size text, deal text,
      in_ba ${money(postgres)}, out_ba ${money(postgres)}, cleared ${money(postgres)} not null,
      price_dsp ${money(postgres)}, currency text, margin ${money(postgres)},
      late integer not null, "over" integer not null, applied integer, reason text,
      decided_at bigint, at bigint not null, notice text${postgres ? ', day integer not null' : ''},
      constraint ledger_key primary key (decision, event${day}))
      ${postgres ? 'partition by range (day)' : ''}`,
    `create index ledger_bid on ${table} (bid_id, event, at)`,
    `create index ledger_at on ${table} (at)`,
    `create index ledger_unattributed on ${table} (reason, at) where status = 'unattributed'`,
    'create table losses (decision text primary key, at bigint not null)',
    'create index losses_at on losses (at)',
    // The journal of what follows a committed row, and the processes that work on it.
    `create table outcomes (
      batch text not null, place integer not null, node text not null,
      applied integer not null, at bigint not null, kind text not null, decision text not null,
      event text not null, body text not null,
      constraint outcomes_key primary key (node, batch, place))`,
    'create table outcome_nodes (node text primary key, alive bigint not null)',
  ]
}

/** The sums of the ledger in one hour. */
const hourSums = (postgres: boolean) => `
    n bigint not null, bids bigint not null, priced bigint not null, late bigint not null,
    over_count bigint not null, lowered bigint not null, unapplied bigint not null,
    cleared ${money(postgres)} not null,
    out_ba ${money(postgres)} not null, margin ${money(postgres)} not null,
    margins double precision not null, squares double precision not null,
    spends double precision not null, spend_squares double precision not null`

/**
 * Hourly sums of decisions and of the ledger: of all seats, of each seat, and of each value of the dimensions that are not in
 * the sums of all (country, device, format, size, deal); and the progress of the roll-up.
 */
const sums = (postgres: boolean) => [
  `create table decided (
    hour bigint not null, supplier text not null, mode text not null, arm text not null,
    via text not null, publisher text not null, domain text not null, bids bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    constraint decided_key primary key (hour, supplier, mode, arm, via, publisher, domain))`,
  `create table decided_seats (
    hour bigint not null, supplier text not null, mode text not null, arm text not null,
    via text not null, publisher text not null, domain text not null, seat text not null, bids bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    constraint decided_seats_key primary key (
      hour, supplier, mode, arm, via, publisher, domain, seat))`,
  `create table decided_facets (
    hour bigint not null, supplier text not null, mode text not null, arm text not null,
    via text not null, dimension text not null, value text not null, bids bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    constraint decided_facets_key primary key (hour, dimension, supplier, value, mode, arm, via))`,
  `create table ledger_hours (
    hour bigint not null, supplier text not null, event text not null, status text not null,
    mode text not null, arm text not null, via text not null, publisher text not null, domain text not null,
    currency text not null, ${hourSums(postgres)},
    constraint ledger_hours_key primary key (
      hour, supplier, event, status, mode, arm, via, publisher, domain, currency))`,
  `create table ledger_hour_seats (
    hour bigint not null, supplier text not null, event text not null, status text not null,
    mode text not null, arm text not null, via text not null, publisher text not null, domain text not null,
    currency text not null, seat text not null, ${hourSums(postgres)},
    constraint ledger_hour_seats_key primary key (
      hour, supplier, event, status, mode, arm, via, publisher, domain, currency, seat))`,
  `create table ledger_hour_facets (
    hour bigint not null, supplier text not null, event text not null, status text not null,
    mode text not null, arm text not null, via text not null, currency text not null,
    dimension text not null, value text not null, ${hourSums(postgres)},
    constraint ledger_hour_facets_key primary key (
      hour, dimension, supplier, value, event, status, mode, arm, via, currency))`,
  `create table rolled (
    one integer primary key, until bigint not null, sealed bigint not null, lease bigint not null)`,
  'insert into rolled (one, until, sealed, lease) values (1, 0, 0, 0)',
  // Hours to be summed again: rows of the ledger change if a win is voided or attributed late.
  'create table stale_hours (hour bigint primary key, changes bigint not null)',
  // Bids and wins of the arms that are compared, by day: kept wins, kept spend, uplift, and the caps of a day.
  `create table arm_days (
    day bigint not null, supplier text not null, event text not null, mode text not null,
    arm text not null, currency text not null, bids bigint not null, n bigint not null,
    priced bigint not null, margins double precision not null, squares double precision not null,
    spends double precision not null, spend_squares double precision not null,
    reduced double precision not null,
    constraint arm_days_key primary key (day, supplier, event, mode, arm, currency))`,
]

/**
 * Figures by minute of the last two days, to which nodes add. The supplier '' has the sums of all and, of the nodes, their starts,
 * reloads and refits. Money is CPM in the base currency; `took_5`: requests that the supplier took at most 5 ms for.
 */
const minutes = [
  `create table minutes (
    supplier text not null, minute bigint not null,
    requests bigint not null, sent bigint not null, failed bigint not null, refused bigint not null,
    took_5 bigint not null, took_10 bigint not null, took_25 bigint not null, took_50 bigint not null,
    took_75 bigint not null, took_100 bigint not null, took_150 bigint not null, took_200 bigint not null,
    took_250 bigint not null, took_500 bigint not null, took_1000 bigint not null, took_more bigint not null,
    bids bigint not null, wins bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    revenue double precision not null, margin double precision not null,
    optimised_bids bigint not null, optimised_wins bigint not null,
    optimised_spend double precision not null, optimised_squares double precision not null,
    holdout_bids bigint not null, holdout_wins bigint not null,
    holdout_spend double precision not null, holdout_squares double precision not null,
    starts bigint not null, reloads bigint not null, refits bigint not null,
    constraint minutes_key primary key (supplier, minute))`,
  'create index minutes_by_time on minutes (minute)',
  // Days whose report a node has begun to send, and whether it was sent.
  'create table daily_reports (day text primary key, sent integer not null, at bigint not null)',
]

/**
 * What was wrong with suppliers and nodes, from `began` to `ended`. `supplier` is '' if it was a node. `opened`: when it had lasted
 * long enough to be an alert. `gone`: since when the condition has not been met. `acts`: 1 if a guard keeps the prices of the supplier. `sent`: 1 if the receiver has the begin, 2 if it
 * has the end. The one row of `alert_rounds` says when a node compared last, and when the receiver is called next.
 */
const alerts = (postgres: boolean) => [
  `create table alerts (
    id ${postgres ? 'bigserial primary key' : 'integer primary key autoincrement'},
    rule text not null, supplier text not null, node text not null, level text not null,
    text text not null, fix text, began bigint not null, opened bigint, gone bigint, ended bigint,
    acts integer default 0 not null, sent integer default 0 not null)`,
  'create unique index alerts_open on alerts (rule, supplier, node) where ended is null',
  'create index alerts_by_end on alerts (ended)',
  'create index alerts_by_supplier on alerts (supplier, rule)',
  `create table alert_rounds (
    one integer primary key, at bigint not null, failures integer not null, next bigint not null, fault text)`,
  'insert into alert_rounds (one, at, failures, next) values (1, 0, 0, 0)',
]

const models = (postgres: boolean) => [
  `create table models (
    mode text primary key, epoch bigint not null, rolled_back_at bigint,
    base ${postgres ? 'bytea' : 'blob'})`,
  "insert into models (mode, epoch) values ('revenue', 0), ('margin', 0)",
  'create table model_learning (one integer primary key, frozen integer not null)',
  'insert into model_learning (one, frozen) values (1, 0)',
  'create table model_resets (supplier text primary key, times bigint not null)',
  // Updates of models that a process has not sent to the other nodes yet, at most some hundred of each process.
  `create table unsent_deltas (
    id text primary key, node text not null, mode text not null, at bigint not null,
    bytes ${postgres ? 'bytea' : 'blob'} not null)`,
]

/** What nodes publish: figures for the console in parts of bounded size, and check values of what must be equal. */
const nodes = [
  'create table nodes (location text primary key, live integer not null)',
  `create table node_figures (
    node text not null, part integer not null, at bigint not null, figures text not null,
    constraint node_figures_key primary key (node, part))`,
  `create table node_fingerprints (
    node text primary key, at bigint not null, keys text not null, configuration text not null,
    details text not null)`,
]

export const schema = migration('001-schema', (postgres) => [
  ...[...management(postgres), ...auth, ...ledger(postgres), ...sums(postgres)],
  ...[...minutes, ...alerts(postgres), ...models(postgres), ...nodes],
])
