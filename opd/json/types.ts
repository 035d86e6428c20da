/** A document: its bytes, or the same as latin1 text, a character for each byte. */
export type Body = Buffer | string

/** What the readers of JSON documents use. Positions are byte offsets. */
export interface Scanner {
  /** The document as latin1: a character is a byte. */
  readonly text: string
  /** Whether any string may contain an escape of an ASCII character as `\u00XX`. */
  readonly asciiEscapes: boolean
  /** Adds the position and the number of each literal (literals.ts), by rising positions. */
  literals(positions: number[], numbers: number[]): void
  /** Value of the last `read`; `undefined` for an object or an array. */
  readonly value: string | number | boolean | null | undefined
  /** The end of any value; `at` is its first byte. */
  skip(at: number): number
  /** Like `skip`, and stores the value of a string, number, boolean or null in `value`. */
  read(at: number): number
  /** An object. Values of the table's keys are read into `into`, all others are skipped. */
  object<T>(at: number, table: Keys<T>, into: T): number
  array<T>(at: number, element: Read<T>, into: T): number
  /** The whole document: one value with optional white space around it. False: malformed, or a reader said so. */
  document<T>(value: Read<T>, into: T): boolean
}

/**
 * Reads the value at `at` into `into` by one call of `scan`. Returns the end of the value, or `malformed`, which ends the
 * document.
 */
export type Read<T> = (scan: Scanner, at: number, into: T) => number

/** See key-table.ts. */
export interface Keys<T> {
  readonly reads: readonly Read<T>[]
  readonly keys: readonly string[]
  /** Index of a key by its number (known-keys.ts); -1: not in the table. */
  readonly byNumber: Int8Array
  readonly repeated: ((into: T, key: string) => void) | null
  find(body: Uint8Array, start: number, end: number): number
}
