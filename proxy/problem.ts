/** The refusals of the proxy listener, as RFC 9457 problem documents. */
import { problemType } from '../opd/base/problem-type.ts'
import { OutgoingResponse } from './wire/outgoing-heads.ts'

type Row = readonly [status: number, message: string, detail: string, allow?: string]

/** Every problem of the proxy listener. */
export const problems = {
  not_found: [404, 'Not Found', 'no such supplier, or no such path on this listener'],
  method: [405, 'Method Not Allowed', 'bid requests use POST', 'POST'],
  // RFC 9110 9.3.8: the response would contain the header fields that proxies added.
  trace: [
    405,
    'Method Not Allowed',
    'TRACE is not forwarded',
    'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  ],
  caller: [403, 'Forbidden', 'this caller may not send bids to this supplier'],
  certificate: [
    403,
    'Forbidden',
    'no certificate of this caller is one of callers.subjects of this supplier',
  ],
  body: [413, 'Content Too Large', 'the request body exceeds proxy.maxRequestBytes'],
  host: [400, 'Bad Request', 'exactly one valid Host header is required'],
  coding: [400, 'Bad Request', 'chunked is the only supported transfer coding'],
  version: [400, 'Bad Request', 'HTTP/1.1, or HTTP/1.0 without Transfer-Encoding, is required'],
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof problems

interface Problem {
  head: OutgoingResponse
  body: Buffer
}

function build(code: ProblemCode): Problem {
  const [status, message, detail, allow]: Row = problems[code]
  const body = Buffer.from(
    JSON.stringify({ type: problemType(code), title: message, status, code, detail }),
  )
  const fields = ['Content-Type', 'application/problem+json']
  if (allow !== undefined) fields.push('Allow', allow)
  return { head: new OutgoingResponse(status, message, fields), body }
}

const built = Object.fromEntries(
  (Object.keys(problems) as ProblemCode[]).map((code) => [code, build(code)]),
) as Record<ProblemCode, Problem>

/**
 * The problem document of a code, made once.
 *
 * @param code a row of the table of problems
 */
export const problem = (code: ProblemCode): Problem => built[code]
