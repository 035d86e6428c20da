/** Exit codes of sysexits.h. */

/** EX_CONFIG. */
export const badConfig = 78
/** EX_USAGE. */
export const badUsage = 64
/** EX_DATAERR. */
export const badData = 65
/** EX_NOINPUT. */
export const noInput = 66
/** EX_TEMPFAIL: another process uses the state; the command can be repeated when that process has ended. */
export const inUse = 75
