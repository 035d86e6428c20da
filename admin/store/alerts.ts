/**
 * What is wrong with suppliers and nodes, and what was: rows of `alerts`. One node compares them with what is so now, and calls the
 * receiver. A condition is an alert once it has lasted for a minute; it ends when it has not been met for five.
 */
import { type Kysely, type Selectable, sql } from 'kysely'
import { day } from './hour.ts'
import { type AlertRow, storable, type Tables } from './tables.ts'

/** What is wrong now. `supplier`: '' for a node, `node`: '' for a supplier. */
export type Condition = Pick<AlertRow, 'rule' | 'supplier' | 'node' | 'level' | 'text' | 'fix'>

export type Alert = Selectable<AlertRow>

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

/**
 * Makes the rows those of what is wrong now. `isSent`: alerts that end now are not for the receiver, since there is none.
 *
 * @param now milliseconds since 1970
 */
export async function updateAlerts(
  db: Kysely<Tables>,
  found: readonly Condition[],
  now: number,
  isSent: boolean,
): Promise<void> {
  const open = await db.selectFrom('alerts').selectAll().where('ended', 'is', null).execute()
  const known = new Map(open.map((row) => [keyOf(row), row]))
  const begun = new Map<string, Condition>()
  const met = new Set<number>()
  const back: number[] = []
  for (const problem of found) {
    const condition = { ...problem, text: storable(problem.text), node: storable(problem.node) }
    const key = keyOf(condition)
    const row = known.get(key)
    if (row === undefined) {
      begun.set(key, condition)
      continue
    }
    met.add(row.id)
    if (row.gone !== null) back.push(row.id)
    const { level, text, fix } = condition
    if (row.level !== level)
      await db.updateTable('alerts').set({ level, text, fix }).where('id', '=', row.id).execute()
  }
  const missing = open.filter(({ id }) => !met.has(id))
  const ids = (rows: readonly Alert[]) => rows.map(({ id }) => id)
  const set = async (ids: readonly number[], values: Partial<Omit<Alert, 'id'>>) => {
    for (const part of slices(ids))
      await db.updateTable('alerts').set(values).where('id', 'in', part).execute()
  }
  for (const part of slices([...begun.values()]))
    await db
      .insertInto('alerts')
      .values(part.map((alert) => ({ ...alert, began: now })))
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  await set(back, { gone: null })
  await set(
    ids(
      open.filter(
        ({ id, opened, began }) => met.has(id) && opened === null && began <= now - lastsFor,
      ),
    ),
    { opened: now },
  )
  await set(ids(missing.filter(({ gone, opened }) => opened !== null && gone === null)), {
    gone: now,
  })
  for (const part of slices(ids(missing.filter(({ opened }) => opened === null))))
    await db.deleteFrom('alerts').where('id', 'in', part).execute()
  const ended = missing.filter(({ gone }) => gone !== null && gone <= now - endsAfter)
  for (const part of slices(ids(ended)))
    await db
      .updateTable('alerts')
      .set({ ended: sql<number>`gone`, ...(isSent ? { sent: 2 } : {}) })
      .where('id', 'in', part)
      .execute()
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
