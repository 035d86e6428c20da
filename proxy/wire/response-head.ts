/** The head of a supplier's answer, strict: status, fields, and how its body ends (RFC 9112 6.3). */
import { lower } from '../exchange/headers.ts'
import { lengthOf, readFields } from './fields.ts'

export interface AnswerHead {
  status: number
  message: string
  fields: string[]
  /** Bytes of the body; `chunked`; or `close`, whatever comes until the end of the connection. */
  body: number | 'chunked' | 'close'
  /** The connection may carry another request. */
  keeps: boolean
  /** Milliseconds that the supplier says it keeps an idle connection; Infinity where it does not. */
  hint: number
}

const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n/

/** Null: not certainly an answer of HTTP/1. `text`: the head as latin1, without its blank line. */
export function readAnswerHead(text: string): AnswerHead | null {
  const line = statusLine.exec(text)
  if (line === null) return null
  const fields: string[] = []
  if (!readFields(text, line[0].length, fields)) return null
  const head: AnswerHead = {
    status: Number(line[2]),
    message: line[3] ?? '',
    fields,
    body: 'close',
    keeps: line[1] === '1',
    hint: Number.POSITIVE_INFINITY,
  }
  return framed(head, line[1] === '0') ? head : null
}

/** Settles body and persistence; false where the framing is ambiguous: lengths that repeat, or beside a coding. */
function framed(head: AnswerHead, old: boolean): boolean {
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
      if (known === 'connection') head.keeps &&= !/(^|[\s,])close($|[\s,])/i.test(value)
      else if (known === 'keep-alive') head.hint = hintOf(value)
    }
  }
  if (chunked && (length !== null || old)) return false
  if (head.status === 204 || head.status === 304) {
    // What follows such a head all the same belongs to nobody.
    head.keeps &&= !chunked && (head.status === 304 || (length ?? 0) === 0)
    head.body = 0
  } else if (chunked) head.body = 'chunked'
  else if (length !== null) head.body = length
  else head.keeps = false
  return true
}

function hintOf(value: string): number {
  const seconds = /timeout\s*=\s*"?(\d{1,9})/i.exec(value)
  return seconds === null ? Number.POSITIVE_INFINITY : Number(seconds[1]) * 1000
}
