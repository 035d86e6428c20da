/**
 * Changes of an existing user. One transaction contains the change, the end of the user's sessions and the audit
 * entry.
 */
import type { Transaction } from 'kysely'
import type { Store } from '../store/index.ts'
import { audit } from '../store/suppliers.ts'
import type { Tables } from '../store/tables.ts'
import { hashPassword } from './passwords.ts'
import { may } from './roles.ts'
import {
  allUsers,
  findUser,
  passwordFault,
  type StoredUser,
  shown,
  type UserAuthor,
  userAudit,
} from './users.ts'

export type UserVerb = 'passwd' | 'disable' | 'enable' | 'remove'

/** `last_admin`: without this user, no enabled user would have the role operator and see all suppliers. */
export type Changed = 'changed' | 'unknown' | 'last_admin'

interface Apply {
  trx: Transaction<Tables>
  name: string
  hash: string
}

const set = ({ trx, name }: Apply, values: { hash: string } | { disabled: 0 | 1 }) =>
  trx.updateTable('users').set(values).where('name', '=', name).execute()

interface Rule {
  apply(to: Apply): Promise<unknown>
  /** Whether the user cannot log in afterwards. */
  closes: boolean
}

const rules: Readonly<Record<UserVerb, Rule>> = {
  passwd: { apply: (to) => set(to, { hash: to.hash }), closes: false },
  disable: { apply: (to) => set(to, { disabled: 1 }), closes: true },
  enable: { apply: (to) => set(to, { disabled: 0 }), closes: false },
  remove: {
    apply: ({ trx, name }) => trx.deleteFrom('users').where('name', '=', name).execute(),
    closes: true,
  },
}

const isAdmin = ({ account, roles, disabled }: StoredUser) =>
  !disabled && account === '*' && may(new Set(roles), 'operator')

/** Throws a RangeError if the password is too short or too long. Only `passwd` uses `password`. */
export async function changeUser(
  { db, postgres }: Pick<Store, 'db' | 'postgres'>,
  name: string,
  verb: UserVerb,
  options: { password?: string; force?: boolean; now?: number; by?: UserAuthor } = {},
): Promise<Changed> {
  const { password = '', force = false, now = Date.now(), by } = options
  const fault = verb === 'passwd' ? passwordFault(password) : null
  if (fault !== null) throw new RangeError(fault)
  const hash = verb === 'passwd' ? await hashPassword(password) : ''
  const { apply, closes } = rules[verb]
  return db.transaction().execute(async (trx) => {
    // All users are locked: otherwise two concurrent commands could disable one admin each and leave none.
    const before = await allUsers(trx, postgres)
    const user = before.find((each) => each.name === name)
    if (user === undefined) return 'unknown'
    const left = before.some((each) => each.name !== name && isAdmin(each))
    if (closes && isAdmin(user) && !left && !force) return 'last_admin'
    await apply({ trx, name, hash })
    await trx.deleteFrom('refresh_tokens').where('user_name', '=', name).execute()
    const after = await findUser(trx, name)
    const change = userAudit(verb, shown(user), after === null ? null : shown(after))
    await audit(trx, now, { ...change, ...by })
    return 'changed'
  })
}
