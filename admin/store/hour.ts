/** Hours and days, in milliseconds, and the key that what is added up by hour has. */

export const hour = 3_600_000
export const day = 24 * hour

/** The begin of the hour that a time falls into, before 1970 too. */
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
