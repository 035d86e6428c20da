/** What a store says when it cannot keep a promise: the caller answers 503 and nothing is torn. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly code: 'unavailable' | 'overloaded' | 'closed'

  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The code of a fault that the database names: an SQLSTATE of PostgreSQL, `SQLITE_` and a number of SQLite. */
const codeOf = (error: unknown): string => String((error as { code?: unknown }).code)

/** PostgreSQL's classes of faults of the data: wrong, against a constraint, beyond a limit such as an index row's. */
export const isOfTheRow = (error: unknown): boolean =>
  /^((22|23|54)...|SQLITE_(18|19|20))$/.test(codeOf(error))

/**
 * Faults of the statement or of its values: the same call fails again, so they are bugs here. Classes of SQLSTATE,
 * without 42501, a privilege that the operator has not granted; SQLite's ERROR, MISUSE and RANGE.
 */
const isOfTheStatement = (error: unknown): boolean =>
  isOfTheRow(error) ||
  /^((0A|21|26|34|42(?!501))...|SQLITE_(1|21|25))$/.test(codeOf(error)) ||
  error instanceof TypeError ||
  error instanceof RangeError

/** The one place where errors of a driver become the store's: all but bugs say that the store is away. */
export function storeErrorOf(error: unknown): Error {
  if (error instanceof StoreError || isOfTheStatement(error)) return error as Error
  return new StoreError('unavailable', (error as Error).message, { cause: error })
}
