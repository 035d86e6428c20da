/** Reads the head of a supplier's response strictly: status, fields, and the end of its body (RFC 9112 6.3). */

import type { ResponseHead } from '../types.ts'
import { lengthOf, readFields } from './fields.ts'
import { lower } from './headers.ts'

export interface UpstreamResponseHead extends ResponseHead {
  /** The value of Content-Length; null: there is none. */
  length: number | null
  /** The length in bytes; `chunked`; or `close`: the body ends with the connection. */
  body: number | 'chunked' | 'close'
  /** The connection may be used for another request. */
  keepAlive: boolean
  /** Milliseconds of `Keep-Alive: timeout`; Infinity without one. */
  hint: number
}

export const maxHead = 64 * 1024
/** Interim responses (RFC 9110 15.2) before the final one. */
export const maxInterim = 32
export const blankLine = Buffer.from('\r\n\r\n')
const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n/

/** `text`: the head as latin1, without its blank line. Null: not a well-formed HTTP/1 response. */
export function readResponseHead(text: string): UpstreamResponseHead | null {
  const line = statusLine.exec(text)
  if (line === null) return null
  const fields: string[] = []
  if (!readFields(text, line[0].length, fields)) return null
  const head: UpstreamResponseHead = {
    status: Number(line[2]),
    message: line[3] ?? '',
    fields,
    reply: null,
    length: null,
    body: 'close',
    keepAlive: line[1] === '1',
    hint: Number.POSITIVE_INFINITY,
  }
  return readFraming(head, line[1] === '0') ? head : null
}

/** Sets `body`, `keepAlive` and `hint`. False: the framing is ambiguous (several lengths, or a length and a coding). */
function readFraming(head: UpstreamResponseHead, http10: boolean): boolean {
  const { fields } = head
  let length: number | null = null
  let chunked = false
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at]!
    const value = fields[at + 1]!
    if (name.length === 14 && lower(name) === 'content-length') {
      if (length !== null) return false
      length = lengthOf(value)
      if (length === null) return false
    } else if (name.length === 17 && lower(name) === 'transfer-encoding') {
      if (chunked || value.toLowerCase() !== 'chunked') return false
      chunked = true
    } else if (name.length === 10) {
      const known = lower(name)
      if (known === 'connection') head.keepAlive &&= !/(^|[\s,])close($|[\s,])/i.test(value)
      else if (known === 'keep-alive') head.hint = hintOf(value)
    }
  }
  head.length = length
  if (chunked && (length !== null || http10)) return false
  if (head.status === 204 || head.status === 304) {
    // Such a response has no body: bytes that follow would be read as the next response.
    head.keepAlive &&= !chunked && (head.status === 304 || (length ?? 0) === 0)
    head.body = 0
  } else if (chunked) head.body = 'chunked'
  else if (length !== null) head.body = length
  else head.keepAlive = false
  return true
}

function hintOf(value: string): number {
  const seconds = /timeout\s*=\s*"?(\d{1,9})/i.exec(value)
  return seconds === null ? Number.POSITIVE_INFINITY : Number(seconds[1]) * 1000
}

/** Why bytes without a blank line are not the beginning of a response; null: they may be. */
export function partialHeadFault(bytes: Buffer): string | null {
  if (bytes.length > maxHead) return 'a head over 64 KiB'
  if (!'HTTP/1.'.startsWith(bytes.toString('latin1', 0, 7))) return 'not HTTP'
  // Such a head never has a blank line of CR LF: the caller would wait for the deadline.
  const end = bytes.indexOf(10)
  return end >= 0 && bytes[end - 1] !== 13 ? 'a head of bare line feeds' : null
}
