/** What commands share: exit codes of sysexits.h and streams. */
import type { UserStreams } from './user.ts'

/** EX_CONFIG. */
export const badConfig = 78
/** EX_USAGE. */
export const badUsage = 64
/** EX_TEMPFAIL: another process has the state, and the same command works once that has ended. */
export const inUse = 75

export type CommandStreams = UserStreams
