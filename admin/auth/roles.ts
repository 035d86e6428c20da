/** Permissions: the roles of the API, and the suppliers that a caller may see (CONTRACT 8). */
import type { Caller } from '../ports.ts'

/** Each role includes the ones before it. */
export const roles = ['viewer', 'api', 'operator'] as const
export type Role = (typeof roles)[number]

export const may = (held: ReadonlySet<string>, needed: Role): boolean =>
  roles.slice(roles.indexOf(needed)).some((role) => held.has(role))

/**
 * Whether the caller may see a supplier of this account. Account `*` sees all, those without an account too (CONTRACT
 * 8).
 */
export const canSee = (caller: Caller, account: string | null | undefined): boolean =>
  caller.account === '*' || caller.account === account
