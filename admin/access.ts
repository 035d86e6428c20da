import type { Caller } from './ports.ts'

/**
 * Whether the caller may see a supplier of this account. Account `*` sees all, those without an account too (CONTRACT
 * 8).
 */
export const canSee = (caller: Caller, account: string | null | undefined): boolean =>
  caller.account === '*' || caller.account === account
