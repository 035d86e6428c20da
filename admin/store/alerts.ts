/**
 * What is wrong with suppliers and nodes, and what was: rows of `alerts`. One node compares them with what is so now, and calls the
 * receiver. A condition is an alert once it has lasted for a minute; it ends when it has not been met for five.
 */
import { type Kysely, type Selectable, sql } from 'kysely'
import { dayNumber } from './arm-days.ts'
import { day, hour } from './hour.ts'
import type { Store } from './index.ts'
import { type AlertRow, storable, type Tables } from './tables.ts'

/** What is wrong. `supplier`: '' for a node, `node`: '' for a supplier. */
type Found = Pick<AlertRow, 'rule' | 'supplier' | 'node' | 'level' | 'text' | 'fix'>

/**
 * What is wrong now. `isRecorded`: wins of the supplier were recorded in the last minutes. The sums of days do not have those of bids
 * whose price a guard kept.
 */
export type Condition = Found & { isRecorded: boolean }

export type Alert = Selectable<AlertRow>

/** Rules that say why no win may be recorded. */
const silentRules = ['no_notices', 'notices_refused', 'notices_unattributed'] as const
/** Rules that say that the money of a supplier cannot be checked: reports do not count its margin as proven. */
export const uncheckedRules = [...silentRules, 'price_too_low'] as const

/**
 * Milliseconds for which notices may be late, at least. Once such an alert is that old, and no win was recorded meanwhile, a guard
 * acts: no price of the supplier is lowered. Wins say that a part of the notices can be trusted, and strangers may send others.
 */
const mayBeLate = 1_800_000

/** Milliseconds until a condition is an alert, and until one that is not met has ended. */
const lastsFor = 60_000
const endsAfter = 300_000
/** Milliseconds between two rounds, of whichever node. A little less, so that timers need not be exact. */
const roundEvery = 29_000
/** Milliseconds until an alert that has ended is deleted, and how many of them are kept. */
const keptFor = 90 * day
const mostKept = 100_000
/** Rows of one statement. */
const slice = 200

const keyOf = ({ rule, supplier, node }: Pick<Condition, 'rule' | 'supplier' | 'node'>) =>
  JSON.stringify([rule, supplier, node])

function* slices<T>(all: readonly T[]): Generator<T[]> {
  for (let index = 0; index < all.length; index += slice) yield all.slice(index, index + slice)
}

/**
 * Whether this node makes the round that is due.
 *
 * @param now milliseconds since the epoch, by the clock of the store
 */
export async function takeRound(db: Kysely<Tables>, now: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('alert_rounds')
    .set({ at: now })
    // a clock that was set back does not stop the rounds
    .where((row) => row.or([row('at', '<=', now - roundEvery), row('at', '>', now + roundEvery)]))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** What has changed since the rows were written: ids of rows, and what is new. */
export interface AlertChanges {
  begun: Found[]
  /** Better or worse than before. */
  changed: Pick<Alert, 'id' | 'level' | 'text' | 'fix'>[]
  /** Conditions that have lasted long enough to be alerts. */
  opened: number[]
  /** Alerts whose condition is met again, is no longer met, and has not been met for long. */
  back: number[]
  gone: number[]
  ended: number[]
  /** Conditions that ended before they were alerts. */
  over: number[]
  /** Alerts for which a guard acts from now on, and no longer. */
  guarded: number[]
  released: number[]
}

const idsOf = (rows: readonly Alert[]) => rows.map(({ id }) => id)

/**
 * Compares what is wrong now with the rows.
 *
 * @param db of all nodes, which is only read
 * @param found what is wrong
 * @param now milliseconds since 1970
 * @param window milliseconds after which a bid without a notice counts as lost
 */
export async function alertChanges(
  db: Kysely<Tables>,
  found: readonly Condition[],
  now: number,
  window: number,
): Promise<AlertChanges> {
  const open = await db.selectFrom('alerts').selectAll().where('ended', 'is', null).execute()
  const known = new Map(open.map((row) => [keyOf(row), row]))
  const begun = new Map<string, Found>()
  const changed: AlertChanges['changed'] = []
  const met = new Set<number>()
  const unrecorded: Alert[] = []
  for (const { isRecorded, ...problem } of found) {
    const condition = { ...problem, text: storable(problem.text), node: storable(problem.node) }
    const key = keyOf(condition)
    const row = known.get(key)
    if (row === undefined) {
      begun.set(key, condition)
      continue
    }
    met.add(row.id)
    if (!isRecorded) unrecorded.push(row)
    const { level, text, fix } = condition
    if (row.level !== level) changed.push({ id: row.id, level, text, fix })
  }
  const missing = open.filter(({ id }) => !met.has(id))
  const opening = open.filter(
    ({ id, opened, began }) => met.has(id) && opened === null && began <= now - lastsFor,
  )
  const ended = missing.filter(({ gone }) => gone !== null && gone <= now - endsAfter)
  const silent = await silentOnes(db, unrecorded, now - Math.max(window, mayBeLate))
  return {
    ...{ begun: [...begun.values()], changed },
    opened: idsOf(opening),
    back: idsOf(open.filter(({ id, gone }) => met.has(id) && gone !== null)),
    gone: idsOf(missing.filter(({ gone, opened }) => opened !== null && gone === null)),
    ended: idsOf(ended),
    over: idsOf(missing.filter(({ opened }) => opened === null)),
    guarded: idsOf(open.filter((row) => row.acts === 0 && silent.has(row))),
    released: idsOf(open.filter((row) => row.acts === 1 && !silent.has(row))),
  }
}

/** Of the alerts those that say since that time, or for longer, why no win is recorded, if none was recorded on its day or later. */
async function silentOnes(
  db: Kysely<Tables>,
  alerts: readonly Alert[],
  since: number,
): Promise<Set<Alert>> {
  const rules: readonly string[] = silentRules
  const old = alerts.filter(
    ({ rule, opened, began }) => rules.includes(rule) && opened !== null && began <= since,
  )
  const recorded = new Set<string>()
  for (const part of slices([...new Set(old.map(({ supplier }) => supplier))])) {
    const rows = await db
      .selectFrom('arm_days')
      .select('supplier')
      .distinct()
      .where('supplier', 'in', part)
      .where('day', '>=', dayNumber(since))
      .where('n', '>', 0)
      .execute()
    for (const { supplier } of rows) recorded.add(supplier)
  }
  return new Set(old.filter(({ supplier }) => !recorded.has(supplier)))
}

/**
 * Writes what has changed, and has all nodes read again for which suppliers a guard acts.
 *
 * @param store of all nodes
 * @param changes of `alertChanges`
 * @param now milliseconds since 1970
 * @param isSent alerts that end now are not for the receiver, since there is none
 */
export async function writeAlerts(
  { db, bump }: Pick<Store, 'db' | 'bump'>,
  changes: AlertChanges,
  now: number,
  isSent: boolean,
): Promise<void> {
  const set = async (ids: readonly number[], values: Partial<Omit<Alert, 'id'>>) => {
    for (const part of slices(ids))
      await db.updateTable('alerts').set(values).where('id', 'in', part).execute()
  }
  for (const { id, ...values } of changes.changed) await set([id], values)
  for (const part of slices(changes.begun))
    await db
      .insertInto('alerts')
      .values(part.map((alert) => ({ ...alert, began: now })))
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  await set(changes.back, { gone: null })
  await set(changes.opened, { opened: now })
  await set(changes.gone, { gone: now })
  for (const part of slices(changes.over))
    await db.deleteFrom('alerts').where('id', 'in', part).execute()
  for (const part of slices(changes.ended))
    await db
      .updateTable('alerts')
      .set({ ended: sql<number>`gone`, ...(isSent ? { sent: 2 } : {}) })
      .where('id', 'in', part)
      .execute()
  await set(changes.guarded, { acts: 1 })
  await set(changes.released, { acts: 0 })
  if (changes.guarded.length + changes.released.length > 0) await bump(db)
}

/**
 * The suppliers for which a guard acts, since none of their money can be checked.
 *
 * @param db of all nodes
 */
export async function readUnchecked(db: Kysely<Tables>): Promise<Set<string>> {
  const rows = await db
    .selectFrom('alerts')
    .select('supplier')
    .distinct()
    .where('acts', '=', 1)
    .where('ended', 'is', null)
    .execute()
  return new Set(rows.map(({ supplier }) => supplier))
}

/** Milliseconds before an alert that it speaks of as well: states are those of the last minutes. */
const looksBack = 300_000

/**
 * The suppliers whose money could not be checked at some time of a range.
 *
 * @param db of all nodes
 * @param from milliseconds since 1970, as `to`, which is outside of the range
 */
export async function uncheckedBetween(
  db: Kysely<Tables>,
  from: number,
  to: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('alerts')
    .select('supplier')
    .distinct()
    .where('rule', 'in', uncheckedRules)
    .where('opened', 'is not', null)
    .where('began', '<', to + looksBack)
    .where((row) => row.or([row('ended', 'is', null), row('ended', '>', from)]))
    .execute()
  return rows.map(({ supplier }) => supplier)
}

/**
 * Whether the money of the supplier of a row could not be checked at some time of the row's hour.
 *
 * @param table with a column `supplier`
 * @param time its column of the time, milliseconds since 1970
 */
export function isInUncheckedHour(table: string, time: string) {
  const begin = sql`(${sql.ref(`${table}.${time}`)} / ${sql.lit(hour)}) * ${sql.lit(hour)}`
  const rules = sql.join(uncheckedRules.map((rule) => sql.lit(rule)))
  return sql<boolean>`exists (select 1 from alerts
    where alerts.supplier = ${sql.ref(`${table}.supplier`)} and alerts.rule in (${rules})
      and alerts.opened is not null and alerts.began < ${begin} + ${sql.lit(hour + looksBack)}
      and (alerts.ended is null or alerts.ended > ${begin}))`
}

/**
 * Alerts that the receiver does not have as they are now, the oldest first.
 *
 * @param most rows, 1 or more
 */
export const unsentAlerts = (db: Kysely<Tables>, most: number): Promise<Alert[]> =>
  db
    .selectFrom('alerts')
    .selectAll()
    .where('opened', 'is not', null)
    .where((row) =>
      row.or([
        row.and([row('ended', 'is', null), row('sent', '<', 1)]),
        row.and([row('ended', 'is not', null), row('sent', '<', 2)]),
      ]),
    )
    .orderBy('id')
    .limit(most)
    .execute()

/**
 * They were sent as they are here.
 *
 * @param db of all nodes
 * @param alerts as the receiver has got them
 */
export async function markSent(db: Kysely<Tables>, alerts: readonly Alert[]): Promise<void> {
  for (const [sent, rows] of [
    [1, alerts.filter(({ ended }) => ended === null)],
    [2, alerts.filter(({ ended }) => ended !== null)],
  ] as const)
    for (const part of slices(rows.map(({ id }) => id)))
      await db.updateTable('alerts').set({ sent }).where('id', 'in', part).execute()
}

/**
 * When a node compared last, and the state of the receiver.
 *
 * @param db of all nodes
 */
export const alertRound = (db: Kysely<Tables>) =>
  db.selectFrom('alert_rounds').selectAll().executeTakeFirstOrThrow()

/**
 * Stores the state of the receiver of alerts.
 *
 * @param state `failures`: in a row, 0 or more; `next`: the next try, milliseconds since the epoch; `fault` null: it works
 */
export async function setReceiver(
  db: Kysely<Tables>,
  state: { failures: number; next: number; fault: string | null },
): Promise<void> {
  await db.updateTable('alert_rounds').set(state).execute()
}

/** Deletes alerts that ended long ago, or that are too many. */
export async function deleteAlerts(
  db: Kysely<Tables>,
  now: number,
  most = mostKept,
): Promise<void> {
  const last = await db
    .selectFrom('alerts')
    .select('id')
    .orderBy('id', 'desc')
    .offset(most)
    .limit(1)
    .executeTakeFirst()
  await db
    .deleteFrom('alerts')
    .where('ended', 'is not', null)
    .where((row) =>
      row.or([row('ended', '<', now - keptFor), row('id', '<=', Number(last?.id ?? 0))]),
    )
    .execute()
}
