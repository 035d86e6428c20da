/**
 * Reads the head of a bid request, more strictly than HTTP requires: a POST to /bid/…, one Host, one Content-Length or the
 * chunked coding, and nothing that changes the connection. Any other request belongs to the general lane.
 */

import type { BidHead } from '../types.ts'
import { isHost, lengthOf, lower, readFields } from './headers.ts'

/** Instead of a length. */
export const chunked = -1

/** The first line of a bid request. */
export interface RequestLine {
  /** With its line end. */
  text: string
  supplier: string
  /** `?…`, or empty. */
  query: string
}

export interface RequestHead extends BidHead {
  fields: string[]
  /** The value of Content-Length: bytes of the body. `chunked`: the body has the chunked coding. */
  length: number
  /** The position of that value in `fields`; `chunked`: there is none. */
  lengthAt: number
}

const requestLine = /^POST \/bid\/([a-z0-9][a-z0-9_-]{0,62})(\?[\x21-\x7e]*)? HTTP\/1\.1\r\n/
/** Names and values of 2,000 fields, node:http's default limit (maxHeadersCount). */
const maxFields = 2 * 2000

/**
 * Reads the first line of a request. Null: the request belongs to the general lane.
 *
 * @param text latin1, which begins with the line
 */
export function readRequestLine(text: string): RequestLine | null {
  const line = requestLine.exec(text)
  return line === null ? null : { text: line[0], supplier: line[1]!, query: line[2] ?? '' }
}

/**
 * Reads the head of a request. Null: the request belongs to the general lane.
 *
 * @param text latin1, without the blank line
 */
export function readRequestHead(text: string): RequestHead | null {
  const line = readRequestLine(text)
  if (line === null) return null
  const fields: string[] = []
  if (!readFields(text, line.text.length, fields) || fields.length > maxFields) return null
  const lengthAt = bodyLengthAt(fields)
  if (lengthAt === null) return null
  const length = lengthAt === chunked ? chunked : Number(fields[lengthAt])
  return {
    query: line.query,
    fields,
    length,
    lengthAt,
    encoding: undefined,
    contentType: undefined,
    forwarded: null,
  }
}

/**
 * Makes it the head of another request, which differs in the first line and the Content-Length alone.
 *
 * @param query that of the line: `?…`, or empty
 * @param length bytes of the body, 0 or more
 */
export function setQueryAndLength(head: RequestHead, query: string, length: number): void {
  head.query = query
  if (head.length === length) return
  head.length = length
  head.fields[head.lengthAt] = String(length)
}

/**
 * The position of the Content-Length's value, or `chunked`; null: no single length or Host, another transfer coding, an
 * expectation, or a close.
 */
function bodyLengthAt(fields: readonly string[]): number | null {
  let lengthAt: number | null = null
  let hosts = 0
  for (let index = 0; index < fields.length; index += 2) {
    switch (fields[index]!.length) {
      case 4:
        if (lower(fields[index]!) !== 'host') break
        if (!isHost(fields[index + 1]!)) return null
        hosts++
        break
      case 14:
        if (lower(fields[index]!) !== 'content-length') break
        if (lengthAt !== null || lengthOf(fields[index + 1]!) === null) return null
        lengthAt = index + 1
        break
      case 10:
      case 16:
        if (persistence.has(lower(fields[index]!)) && !persistent.test(fields[index + 1]!))
          return null
        break
      case 6:
        if (lower(fields[index]!) === 'expect') return null
        break
      case 17:
        if (lower(fields[index]!) !== 'transfer-encoding') break
        if (lengthAt !== null || lower(fields[index + 1]!) !== 'chunked') return null
        lengthAt = chunked
    }
  }
  return hosts === 1 ? lengthAt : null
}

/** node:http treats both alike. */
const persistence = new Set(['connection', 'proxy-connection'])
/** With an offer to upgrade, which is ignored (RFC 9110 7.8): Java's client sends one with each POST of a new connection. */
const persistent = /^(?:keep-alive|upgrade(?:, ?http2-settings)?)$/i
