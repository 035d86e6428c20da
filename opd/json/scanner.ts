/** Creates scanners, and reads objects and arrays with them. */
import { isAscii, isUtf8 } from 'node:buffer'
import { indexDocument } from './index-memory.ts'
import { IndexScanner } from './index-scanner.ts'
import type { KeyTable } from './key-table.ts'
import { BRACE, BRACKET } from './syntax.ts'
import { TextScanner } from './text-scanner.ts'
import type { Body, Read, Scanner } from './types.ts'

export { KeyTable } from './key-table.ts'
export type { Body, Read, Scanner } from './types.ts'

/**
 * null: not UTF-8. A byte-order mark is not JSON, so the scan rejects it. A document that cannot be indexed, malformed or
 * too long, is left to the reference, so that it alone decides what is refused.
 */
export function createScanner(body: Body): Scanner | null {
  return indexDocument(body) ? new IndexScanner(body) : createTextScanner(body)
}

/** The same without the index. */
export function createTextScanner(body: Body): Scanner | null {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
  const ascii = isAscii(bytes)
  return ascii || isUtf8(bytes) ? new TextScanner(bytes, ascii) : null
}

/** Reads an object by its key table. Any other value is skipped. */
export function readObject<T>(scan: Scanner, at: number, table: KeyTable<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACE ? scan.object(at, table, into) : scan.skip(at)
}

/** Reads an array, element by element. Any other value is skipped. */
export function readArray<T>(scan: Scanner, at: number, element: Read<T>, into: T): number {
  return scan.text.charCodeAt(at) === BRACKET ? scan.array(at, element, into) : scan.skip(at)
}
