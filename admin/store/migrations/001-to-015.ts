/** The migrations of the first release, in the order in which they run. Names that are keywords of SQL are quoted. */
import { day } from '../hour.ts'
import { type Migration, migration } from './migration.ts'

/** Exact decimals. SQLite stores them as text. */
const money = (postgres: boolean) => (postgres ? 'numeric' : 'text')

const core = migration('001-core', (postgres) => [
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
  `create table audit (
    id ${postgres ? 'bigserial primary key' : 'integer primary key autoincrement'},
    at bigint not null, who text not null, account text not null, supplier text not null,
    action text not null, "before" text, "after" text, request_id text not null)`,
  `create table ledger (
    decision text not null, event text not null, bid_id text not null, status text not null,
    "by" text, supplier text, mode text, arm text, publisher text, domain text,
    in_ba ${money(postgres)}, out_ba ${money(postgres)}, cleared ${money(postgres)} not null,
    price_dsp ${money(postgres)}, currency text, margin ${money(postgres)},
    late integer not null, "over" integer not null, reason text, decided_at bigint,
    at bigint not null, constraint ledger_key primary key (decision, event))`,
  'create index ledger_bid on ledger (bid_id, event, at)',
  'create index ledger_at on ledger (at)',
  `create table decided (
    hour bigint not null, supplier text not null, mode text not null, arm text not null,
    publisher text not null, domain text not null, bids bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    constraint decided_key primary key (hour, supplier, mode, arm, publisher, domain))`,
])

/** Users of the embedded token endpoint, hashes of its refresh tokens, and its signing keys. */
const auth = migration('002-auth', () => [
  `create table users (
    name text primary key, hash text not null, roles text not null, account text not null,
    created_at bigint not null)`,
  `create table refresh_tokens (
    hash text primary key, family text not null, user_name text not null, scope text not null,
    expires_at bigint not null, used integer not null)`,
  'create index refresh_family on refresh_tokens (family)',
  `create table signing_keys (
    kid text primary key, private_jwk text not null, created_at bigint not null)`,
])

/** A client that refreshes every five minutes leaves 8,600 tokens in a month; this index finds expired ones. */
const refreshExpiry = migration('003-refresh-expiry', () => [
  'create index refresh_expiry on refresh_tokens (expires_at)',
])

/** The sums of the ledger in one hour. */
const hourSums = (postgres: boolean) => `
    n bigint not null, bids bigint not null, priced bigint not null, late bigint not null,
    over_count bigint not null, cleared ${money(postgres)} not null,
    out_ba ${money(postgres)} not null, margin ${money(postgres)} not null,
    margins double precision not null, squares double precision not null`

/** Hourly sums of the ledger, the progress of the roll-up, and duplicates, which the ledger does not store. */
const hours = migration('004-hours', (postgres) => [
  `create table ledger_hours (
    hour bigint not null, supplier text not null, event text not null, status text not null,
    mode text not null, arm text not null, publisher text not null, domain text not null,
    currency text not null, ${hourSums(postgres)},
    constraint ledger_hours_key primary key (
      hour, supplier, event, status, mode, arm, publisher, domain, currency))`,
  `create table rolled (
    one integer primary key, until bigint not null, sealed bigint not null, lease bigint not null)`,
  'insert into rolled (one, until, sealed, lease) values (1, 0, 0, 0)',
])

/** Hours to be summed again: rows of the ledger change if a win is voided or attributed late. */
const staleHours = migration('005-stale-hours', () => [
  'create table stale_hours (hour bigint primary key, changes bigint not null)',
])

/** Adds disabled users, the last log-in, an index of refresh tokens by user, and the time of log-in of a session. */
const userStates = migration('006-user-states', () => [
  'alter table users add column disabled integer default 0 not null',
  'alter table users add column last_login bigint',
  'alter table refresh_tokens add column auth_time bigint',
  'create index refresh_user on refresh_tokens (user_name)',
])

const models = migration('007-models', (postgres) => [
  `create table models (
    mode text primary key, epoch bigint not null, rolled_back_at bigint,
    base ${postgres ? 'bytea' : 'blob'})`,
  "insert into models (mode, epoch) values ('revenue', 0), ('margin', 0)",
  'create table model_learning (one integer primary key, frozen integer not null)',
  'insert into model_learning (one, frozen) values (1, 0)',
  'create table model_resets (supplier text primary key, times bigint not null)',
])

const nodes = migration('008-nodes', () => [
  'create table nodes (location text primary key, live integer not null)',
])

/** The figures that each node publishes for the console, in parts of bounded size. */
const nodeFigures = migration('009-node-figures', () => [
  `create table node_figures (
    node text not null, part integer not null, at bigint not null, figures text not null,
    constraint node_figures_key primary key (node, part))`,
])

const losses = migration('010-losses', () => [
  'create table losses (decision text primary key, at bigint not null)',
  'create index losses_at on losses (at)',
])

/**
 * The seat of a win, and the hourly sums of each seat. They have tables of their own: a version before writes those of
 * all seats, with their keys, during a rolling update.
 */
const seats = migration('011-seats', (postgres) => [
  'alter table ledger add column seat text',
  `create table decided_seats (
    hour bigint not null, supplier text not null, mode text not null, arm text not null,
    publisher text not null, domain text not null, seat text not null, bids bigint not null,
    in_sum double precision not null, out_sum double precision not null,
    constraint decided_seats_key primary key (
      hour, supplier, mode, arm, publisher, domain, seat))`,
  `create table ledger_hour_seats (
    hour bigint not null, supplier text not null, event text not null, status text not null,
    mode text not null, arm text not null, publisher text not null, domain text not null,
    currency text not null, seat text not null, ${hourSums(postgres)},
    constraint ledger_hour_seats_key primary key (
      hour, supplier, event, status, mode, arm, publisher, domain, currency, seat))`,
])

/** Days after the migration in which a version that does not know the partitions may still write wins. */
const rollingUpdate = 7

/**
 * PostgreSQL: the ledger is partitioned by the day of the decision, so that retention drops days. The table `ledger`
 * becomes the first partition and keeps its name, rows and key: a version before still writes to it during a rolling
 * update, with day 0. Later changes of columns alter `ledger_days`, not `ledger`.
 */
const ledgerDays = migration('012-ledger-days', (postgres, now) =>
  postgres
    ? [
        // a constant default adds the column without rewriting the rows
        'alter table ledger add column day integer not null default 0',
        'create table ledger_days (like ledger including defaults) partition by range (day)',
        `alter table ledger_days attach partition ledger
          for values from (minvalue) to (${Math.floor(now / day) + rollingUpdate})`,
      ]
    : [],
)

/** Bids and wins of the arms that are compared, by day: kept wins and spend survive a restart. */
const armSums = migration('013-arm-sums', () => [
  `create table arm_sums (
    day bigint not null, supplier text not null, mode text not null, arm text not null,
    bids bigint not null, wins bigint not null, "in" double precision not null,
    cleared double precision not null, margin double precision not null,
    margin_squares double precision not null, spend double precision not null,
    spend_squares double precision not null,
    constraint arm_sums_key primary key (day, supplier, mode, arm))`,
])

const eventMarks = migration('014-event-marks', () => [
  'create table event_marks (node text primary key, sent bigint not null, alive bigint not null)',
])

const takenOff = migration('015-taken-off', () => [
  `create table taken_off (
    day integer not null, supplier text not null, amount double precision not null,
    constraint taken_off_key primary key (day, supplier))`,
])

export const upTo015: readonly Migration[] = [
  ...[core, auth, refreshExpiry, hours, staleHours, userStates, models, nodes, losses],
  ...[nodeFigures, seats, ledgerDays, armSums, eventMarks, takenOff],
]
