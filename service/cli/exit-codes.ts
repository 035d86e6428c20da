/** How commands end: with an exit code of sysexits.h. */

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

/** Ends a command with an exit code. The message goes to stderr; '' where stderr says already what is wrong. */
export class CommandError extends Error {
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}
