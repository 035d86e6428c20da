/** What a store says when it cannot keep a promise: the caller answers 503 and nothing is torn. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly code: 'unavailable' | 'overloaded' | 'closed'

  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** PostgreSQL's classes of faults of the data: wrong, against a constraint, beyond a limit such as an index row's. */
export const isOfTheRow = (error: unknown): boolean =>
  /^(22|23|54)...$/.test(String((error as { code?: unknown }).code))
