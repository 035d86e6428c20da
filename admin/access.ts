import type { Caller } from './ports.ts'

/** Whether a supplier of this account is the caller's to see: `*` sees all, those of no account too (CONTRACT 8). */
export const canSee = (caller: Caller, account: string | null | undefined): boolean =>
  caller.account === '*' || caller.account === account
