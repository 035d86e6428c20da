/** Users of the embedded token endpoint. */
import { randomBytes } from 'node:crypto'
import type { Store } from '../store/index.ts'
import { checkPassword, hashPassword } from './passwords.ts'

export interface NewUser {
  name: string
  password: string
  /** `api`, `operator`; none by default. */
  roles?: readonly string[]
  /** Whose suppliers the user sees; `*` all of them. */
  account?: string
}

export interface User {
  name: string
  roles: string[]
  account: string
}

export const knownRoles: readonly string[] = ['api', 'operator']
const maxName = 128
/** Characters; a longer one is refused before it is hashed. */
export const maxPassword = 1024

/** What is wrong with a new user, one sentence a fault. */
export function faultsOf({ name, password, roles = [], account = '' }: NewUser): string[] {
  const faults: string[] = []
  if (name === '' || name.length > maxName || /[\s\p{Cc}]/u.test(name))
    faults.push(`a name has 1 to ${maxName} characters, none of them white space`)
  if (password.length === 0 || password.length > maxPassword)
    faults.push(`a password has 1 to ${maxPassword} characters`)
  for (const role of roles)
    if (!knownRoles.includes(role))
      faults.push(`no such role: ${role} (there are ${knownRoles.join(', ')})`)
  if (account.length > maxName || /[\s\p{Cc}]/u.test(account))
    faults.push(`an account has up to ${maxName} characters, none of them white space`)
  return faults
}

type Db = Pick<Store, 'db'>

/** Throws a RangeError with every fault; false when the name stands already, which changes nothing. */
export async function addUser({ db }: Db, user: NewUser, now = Date.now()): Promise<boolean> {
  const faults = faultsOf(user)
  if (faults.length > 0) throw new RangeError(faults.join('; '))
  const row = {
    name: user.name,
    hash: await hashPassword(user.password),
    roles: JSON.stringify([...new Set(user.roles ?? [])]),
    account: user.account ?? '',
    created_at: now,
  }
  const added = await db
    .insertInto('users')
    .values(row)
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returning('name')
    .execute()
  return added.length > 0
}

/** `admin`, who sees and may do all, when there is no user yet: the password is told once, here. */
export async function firstUser(
  store: Db,
  given?: string,
): Promise<{ name: 'admin'; password: string } | null> {
  if ((await store.db.selectFrom('users').select('name').limit(1).execute()).length > 0) return null
  const password = given ?? randomBytes(15).toString('base64url')
  const user = { name: 'admin', password, roles: knownRoles, account: '*' } as const
  return (await addUser(store, user)) ? { name: 'admin', password } : null
}

export async function findUser(
  { db }: Db,
  name: string,
): Promise<(User & { hash: string }) | null> {
  // a name that no user can have is not looked for: PostgreSQL takes no NUL
  if (name === '' || name.length > maxName || /[\s\p{Cc}]/u.test(name)) return null
  const row = await db.selectFrom('users').selectAll().where('name', '=', name).executeTakeFirst()
  return row === undefined ? null : { ...row, roles: JSON.parse(row.roles) as string[] }
}

export async function logIn(store: Db, name: string, password: string): Promise<User | null> {
  const user = await findUser(store, name)
  const right = await checkPassword(password.slice(0, maxPassword), user?.hash)
  return right && password.length <= maxPassword ? user : null
}
