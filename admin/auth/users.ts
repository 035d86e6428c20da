/** Users of the embedded token endpoint. */
import { randomBytes } from 'node:crypto'
import type { Kysely, Selectable } from 'kysely'
import * as z from 'zod'
import { roles as known, may } from '../http/roles.ts'
import { type Author, audit } from '../store/audit.ts'
import type { Store } from '../store/index.ts'
import type { Tables } from '../store/tables.ts'
import { checkPassword, hashPassword, maxPassword, minPassword } from './passwords.ts'

interface NewUser {
  name: string
  password: string
  /** No role by default. */
  roles?: readonly string[]
  /** The account whose suppliers the user may see; `*` for all suppliers. */
  account?: string
}

export interface User {
  name: string
  roles: string[]
  account: string
}

export interface StoredUser extends User {
  hash: string
  disabled: boolean
  /** Milliseconds since the epoch. */
  lastLogin: number | null
}

const maxName = 128
const isName = (text: string): boolean => text.length <= maxName && !/[\s\p{Cc}\p{Cs}]/u.test(text)
const nameRule = `${maxName} characters, none of them white space`
const passwordRule = `a password has ${minPassword} to ${maxPassword} characters`

/** The fields of a user, besides the roles. */
export const fields = {
  name: z
    .string()
    .min(1, `a name has 1 to ${nameRule}`)
    .refine(isName, `a name has 1 to ${nameRule}`)
    .describe(`1 to up to ${nameRule}`),
  password: z.string().min(minPassword, passwordRule).max(maxPassword, passwordRule),
  account: z
    .string()
    .refine(isName, `an account has up to ${nameRule}`)
    .describe('The account whose suppliers the user may see; `*`: all suppliers'),
}

const faultsOf = (field: z.ZodString, text: string): string[] =>
  field.safeParse(text).error?.issues.map(({ message }) => message) ?? []

/** The faults of a new user, one sentence each. */
function newUserFaults({ name, password, roles = [], account = '' }: NewUser): string[] {
  const unknown = roles.filter((role) => !known.some((name) => name === role))
  return [
    ...faultsOf(fields.name, name),
    ...faultsOf(fields.password, password),
    ...unknown.map((role) => `no such role: ${role} (roles: ${known.join(', ')})`),
    ...faultsOf(fields.account, account),
  ]
}

type Db = Pick<Store, 'db'>

/** The audit entry for a change of a user. The command line opens the store directly, so there is no token. */
const userAudit = (verb: string, before: object | null, after: object | null) => ({
  who: 'command line',
  account: '*',
  supplier: '',
  action: `user_${verb}`,
  before,
  after,
  requestId: crypto.randomUUID(),
})

/**
 * The fields of a user that may be displayed.
 *
 * @param user as the database has it; times become ISO 8601
 */
export const shown = ({ name, roles, account, disabled, lastLogin }: StoredUser) => ({
  name,
  roles,
  account,
  state: disabled ? 'disabled' : 'enabled',
  last_login: lastLogin === null ? null : new Date(lastLogin).toISOString(),
})

/**
 * Throws a RangeError that names every fault. Returns false, and changes nothing, if the name is taken.
 *
 * @param store its database
 * @param user its password in clear text
 * @param now milliseconds since the epoch
 * @param by for the audit; absent: a command of this machine
 * @throws RangeError that names every fault
 */
export async function addUser(
  { db }: Db,
  user: NewUser,
  now = Date.now(),
  by?: Author,
): Promise<boolean> {
  const faults = newUserFaults(user)
  if (faults.length > 0) throw new RangeError(faults.join('; '))
  const { name, account = '' } = user
  const roles = [...new Set(user.roles ?? [])]
  const hash = await hashPassword(user.password)
  return db.transaction().execute(async (trx) => {
    const added = await trx
      .insertInto('users')
      .values({ name, hash, roles: JSON.stringify(roles), account, created_at: now })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .returning('name')
      .execute()
    if (added.length === 0) return false
    const after = shown({ name, hash, roles, account, disabled: false, lastLogin: null })
    await audit(trx, now, { ...userAudit('add', null, after), ...by })
    return true
  })
}

/**
 * Creates `admin`, with all roles and all suppliers, if there is no user yet. A generated password is returned only
 * here; one that was given is not returned, because logs are kept elsewhere than secrets.
 *
 * @param store of all nodes; of two that start together one creates it
 * @param given the password of the configuration; absent: one is generated
 */
export async function firstUser(
  store: Db,
  given?: string,
): Promise<{ name: 'admin'; password: string | null } | null> {
  if ((await store.db.selectFrom('users').select('name').limit(1).execute()).length > 0) return null
  const generated = given === undefined ? randomBytes(15).toString('base64url') : null
  const password = given ?? generated!
  const user = { name: 'admin', password, roles: known, account: '*' } as const
  return (await addUser(store, user)) ? { name: 'admin', password: generated } : null
}

const stored = (row: Selectable<Tables['users']>): StoredUser => ({
  name: row.name,
  hash: row.hash,
  account: row.account,
  roles: JSON.parse(row.roles) as string[],
  disabled: row.disabled === 1,
  lastLogin: row.last_login === null ? null : Number(row.last_login),
})

/**
 * All users by name.
 *
 * @param db a transaction, if `locked`
 * @param locked no other transaction may change a user or log one in until this one ends (PostgreSQL)
 */
export async function allUsers(db: Kysely<Tables>, locked = false): Promise<StoredUser[]> {
  const query = db.selectFrom('users').selectAll().orderBy('name')
  return (await (locked ? query.forUpdate() : query).execute()).map(stored)
}

/**
 * A user, or null.
 *
 * @param db a transaction, if `locked`
 * @param name exactly as it was created
 * @param locked no other transaction may change the user until this one ends (PostgreSQL)
 */
export async function findUser(
  db: Kysely<Tables>,
  name: string,
  locked = false,
): Promise<StoredUser | null> {
  // An invalid name needs no query. PostgreSQL also rejects a NUL.
  if (name === '' || !isName(name)) return null
  const query = db.selectFrom('users').selectAll().where('name', '=', name)
  const row = await (locked ? query.forShare() : query).executeTakeFirst()
  return row === undefined ? null : stored(row)
}

/**
 * Null for an unknown user, a wrong password and a disabled user, after the same work in each case.
 *
 * @param store its database
 * @param name as the caller sent it
 * @param password in clear text
 * @throws PasswordsBusyError if too many passwords are being compared
 */
export async function logIn(
  { db }: Db,
  name: string,
  password: string,
): Promise<StoredUser | null> {
  const user = await findUser(db, name)
  const right = await checkPassword(password.slice(0, maxPassword), user?.hash)
  return right && password.length <= maxPassword && user?.disabled === false ? user : null
}

export type UserVerb = 'passwd' | 'disable' | 'enable' | 'remove'

/** `last_admin`: without this user, no enabled user would have the role operator and see all suppliers. */
export type Changed = 'changed' | 'unknown' | 'last_admin'

const isAdmin = ({ account, roles, disabled }: StoredUser) =>
  !disabled && account === '*' && may(new Set(roles), 'operator')

/**
 * One transaction contains the change, the end of the user's sessions and the audit entry. Only `passwd` uses
 * `password`. Throws a RangeError if the password is too short or too long.
 *
 * @param options `now`: milliseconds since 1970
 */
export async function changeUser(
  { db, postgres }: Pick<Store, 'db' | 'postgres'>,
  name: string,
  verb: UserVerb,
  options: { password?: string; force?: boolean; now?: number; by?: Author } = {},
): Promise<Changed> {
  const { password = '', force = false, now = Date.now(), by } = options
  const [fault] = verb === 'passwd' ? faultsOf(fields.password, password) : []
  if (fault !== undefined) throw new RangeError(fault)
  const hash = verb === 'passwd' ? await hashPassword(password) : ''
  /** Whether the change ends the access of the user. */
  const endsAccess = verb === 'disable' || verb === 'remove'
  return db.transaction().execute(async (trx) => {
    // All users are locked: otherwise two concurrent commands could disable one admin each and leave none.
    const before = await allUsers(trx, postgres)
    const user = before.find((other) => other.name === name)
    if (user === undefined) return 'unknown'
    const otherAdmin = before.some((other) => other.name !== name && isAdmin(other))
    if (endsAccess && isAdmin(user) && !otherAdmin && !force) return 'last_admin'
    if (verb === 'remove') await trx.deleteFrom('users').where('name', '=', name).execute()
    else {
      const values = verb === 'passwd' ? { hash } : { disabled: endsAccess ? 1 : 0 }
      await trx.updateTable('users').set(values).where('name', '=', name).execute()
    }
    await trx.deleteFrom('refresh_tokens').where('user_name', '=', name).execute()
    const after = await findUser(trx, name)
    const change = userAudit(verb, shown(user), after === null ? null : shown(after))
    await audit(trx, now, { ...change, ...by })
    return 'changed'
  })
}
