/** Permissions: the caller, the roles of the API, and the suppliers that a caller may see (CONTRACT 8). */

/** From a verified token. Account `*` sees all suppliers. */
export interface Caller {
  subject: string
  account: string
  roles: ReadonlySet<string>
}

/** Each role includes the ones before it. */
export const roles = ['viewer', 'api', 'operator'] as const
export type Role = (typeof roles)[number]

/**
 * Whether one of the roles includes the one that is needed.
 *
 * @param held roles of a token; others than those of bidweir are ignored
 * @param needed the least
 */
export const may = (held: ReadonlySet<string>, needed: Role): boolean =>
  roles.slice(roles.indexOf(needed)).some((role) => held.has(role))

/**
 * Whether the caller may see a supplier of this account. Account `*` sees all, those without an account too (CONTRACT
 * 8).
 *
 * @param caller of a verified token
 * @param account of the supplier; null or absent: it has none
 */
export const canSee = (caller: Caller, account: string | null | undefined): boolean =>
  caller.account === '*' || caller.account === account

/** The account of a supplier. */
export type AccountOf = (supplier: string) => string | undefined

/**
 * Without a caller every supplier is visible: a win notice may need no token.
 *
 * @param caller null: without a token
 * @param supplier its id
 * @param account of a supplier, by its id
 */
export const seesSupplier = (
  caller: Caller | null | undefined,
  supplier: string,
  account: AccountOf,
): boolean => caller == null || canSee(caller, account(supplier))
