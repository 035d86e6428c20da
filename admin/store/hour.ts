/** Hours and days in milliseconds, and the key of hourly sums. */

export const hour = 3_600_000
export const day = 24 * hour

/** The start of the hour of a time, also before 1970. */
export const hourOf = (at: number): number => at - (((at % hour) + hour) % hour)

/** The primary key of `ledger_hours`. */
export const hourKey = [
  'hour',
  'supplier',
  'event',
  'status',
  'mode',
  'arm',
  'publisher',
  'domain',
  'currency',
] as const
