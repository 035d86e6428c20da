/**
 * The head of a bid request, stricter than HTTP asks: one POST to /bid/…, one Host, one Content-Length, nothing that
 * changes how the connection goes on. What is not certain is the general lane's, unread.
 */
import { lower } from '../exchange/headers.ts'
import { isHost, lengthOf, readFields } from './fields.ts'

export interface RequestHead {
  supplier: string
  /** `?…` with the question mark, or empty. */
  query: string
  /** Flat, as on the wire. */
  fields: string[]
  /** Bytes of the body. */
  length: number
}

const requestLine = /^POST \/bid\/([a-z0-9][a-z0-9_-]{0,62})(\?[\x21-\x7e]*)? HTTP\/1\.1\r\n/
/** Name and value, as node:http counts them (maxHeadersCount). */
const mostFields = 2 * 2000

/** Null: not certain. `text`: the head as latin1, without its blank line. */
export function readRequestHead(text: string): RequestHead | null {
  const line = requestLine.exec(text)
  if (line === null) return null
  const fields: string[] = []
  if (!readFields(text, line[0].length, fields) || fields.length > mostFields) return null
  const length = bodyLength(fields)
  return length === null ? null : { supplier: line[1]!, query: line[2] ?? '', fields, length }
}

/** Null: another framing than one length, another Host than one, an expectation, an upgrade, a close. */
function bodyLength(fields: readonly string[]): number | null {
  let length: number | null = null
  let hosts = 0
  for (let at = 0; at < fields.length; at += 2) {
    switch (fields[at]!.length) {
      case 4:
        if (lower(fields[at]!) !== 'host') break
        if (!isHost(fields[at + 1]!)) return null
        hosts++
        break
      case 14:
        if (lower(fields[at]!) !== 'content-length') break
        if (length !== null) return null
        length = lengthOf(fields[at + 1]!)
        if (length === null) return null
        break
      case 10:
      case 16:
        if (persistence.has(lower(fields[at]!)) && fields[at + 1]!.toLowerCase() !== 'keep-alive')
          return null
        break
      case 6:
      case 7:
      case 17:
        if (uncertain.has(lower(fields[at]!))) return null
    }
  }
  return hosts === 1 ? length : null
}

/** node:http obeys both alike. */
const persistence = new Set(['connection', 'proxy-connection'])
const uncertain = new Set(['expect', 'upgrade', 'transfer-encoding'])
