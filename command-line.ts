/** What commands share: exit codes of sysexits.h and streams. */

/** EX_CONFIG. */
export const badConfig = 78
/** EX_USAGE. */
export const badUsage = 64
/** EX_TEMPFAIL: another process has the state, and the same command works once that has ended. */
export const inUse = 75

export interface CommandStreams {
  stdin: NodeJS.ReadableStream & { isTTY?: boolean }
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}
