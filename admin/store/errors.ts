/** An operation that the store did not complete. No part of it alone was applied. The API returns 503. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly code: 'unavailable' | 'overloaded' | 'closed'

  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The error code of the database: an SQLSTATE of PostgreSQL, or `SQLITE_` and a number for SQLite. */
const codeOf = (error: unknown): string => String((error as { code?: unknown }).code)

/**
 * Whether the data of a row caused the error: PostgreSQL classes for invalid data, violated constraints and exceeded
 * limits such as that of an index row.
 */
export const isRowError = (error: unknown): boolean =>
  /^((22|23|54)...|SQLITE_(18|19|20))$/.test(codeOf(error))

/** No partition of PostgreSQL takes the row. */
export const isMissingPartition = (error: unknown): boolean =>
  codeOf(error) === '23514' && /partition/.test((error as Error).message)

/**
 * Whether the statement or its values caused the error: it would fail again, so it is a bug. Classes of SQLSTATE,
 * without 42501 (a privilege that the operator has not granted); ERROR, MISUSE and RANGE of SQLite.
 */
const isStatementError = (error: unknown): boolean =>
  isRowError(error) ||
  /^((0A|21|26|34|42(?!501))...|SQLITE_(1|21|25))$/.test(codeOf(error)) ||
  error instanceof TypeError ||
  error instanceof RangeError

/** The failure of an operation that may succeed when the store is back. */
export const unavailable = (error: unknown): StoreError =>
  error instanceof StoreError
    ? error
    : new StoreError('unavailable', (error as Error).message, { cause: error })

/** Translates errors of a driver: all but bugs mean that the store is unavailable. */
export function storeErrorOf(error: unknown): Error {
  return isStatementError(error) ? (error as Error) : unavailable(error)
}
