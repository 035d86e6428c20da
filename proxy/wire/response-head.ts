/** Reads the head of a supplier's response strictly: status, fields, and the end of its body (RFC 9112 6.3). */

import type { ResponseHead } from '../types.ts'
import { lengthOf, lower, readFields } from './headers.ts'

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

const LF = 10
/** Bytes of the longest head of a response. */
export const maxHead = 64 * 1024
/** Interim responses (RFC 9110 15.2) before the final one. */
export const maxInterim = 32
/** The end of a head, with the line end before it. */
export const blankLine = Buffer.from('\r\n\r\n')
const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n/

/**
 * Reads the head of a response. Null: not a well-formed HTTP/1 response.
 *
 * @param text latin1, without the blank line
 */
export function readResponseHead(text: string): UpstreamResponseHead | null {
  const line = statusLine.exec(text)
  if (line === null) return null
  const fields: string[] = []
  if (!readFields(text, line[0].length, fields)) return null
  const head: UpstreamResponseHead = {
    status: Number(line[2]),
    message: line[3] ?? '',
    fields,
    replies: [],
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
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!
    const value = fields[index + 1]!
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

/** Any status line is as long as this, or longer. */
const shortestStatus = 'HTTP/1.1 200'
/** Fields that decide on the framing. */
const framingName = /^(?:content-length|transfer-encoding):/im

/**
 * Why bytes without a blank line are not the beginning of a response; null: they may be. Otherwise the caller would wait for
 * its deadline.
 *
 * @param known bytes that were checked before, 0 to their number; only the lines after them are read again
 */
export function partialHeadFault(bytes: Buffer, known = 0): string | null {
  if (bytes.length === 0) return null
  if (bytes.length > maxHead) return 'a head over 64 KiB'
  const from = known === 0 ? 0 : bytes.lastIndexOf(LF, known - 1) + 1
  const text = bytes.toString('latin1', from)
  const lines = completed(text, from === 0)
  const fieldsFrom = from === 0 ? (statusLine.exec(lines)?.[0].length ?? -1) : 0
  const isWellFormed = fieldsFrom >= 0 && readFields(lines, fieldsFrom, [])
  if (!isWellFormed) return 'not an HTTP/1.1 response'
  const end = bytes.lastIndexOf(LF) + 1
  return framingName.test(text) &&
    end > 0 &&
    readResponseHead(bytes.toString('latin1', 0, end)) === null
    ? 'an ambiguous end of the body'
    : null
}

/** The lines of `text`, the last of which is completed to the shortest line that begins like it. */
function completed(text: string, startsHead: boolean): string {
  const start = text.lastIndexOf('\n') + 1
  const line = text.slice(start)
  // The blank line at the end of a head begins like this.
  if (line === '' || line === '\r') return text.slice(0, start)
  if (line.endsWith('\r')) return `${text}\n`
  if (start === 0 && startsHead) return `${text}${shortestStatus.slice(line.length)}\r\n`
  return line.includes(':') ? `${text}\r\n` : `${text}:\r\n`
}
