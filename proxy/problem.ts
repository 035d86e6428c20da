/** Refusals of the listener itself: RFC 9457 problem documents, one table. */
type Row = readonly [status: number, message: string, detail: string, allow?: string]

export const problems = {
  not_found: [404, 'Not Found', 'no such supplier, or no such path on this listener'],
  method: [405, 'Method Not Allowed', 'bids are POSTed', 'POST'],
  // RFC 9110 9.3.8: it would show the caller the fields that were added on the way.
  trace: [
    405,
    'Method Not Allowed',
    'TRACE is not passed on',
    'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  ],
  caller: [403, 'Forbidden', 'this caller may not send bids to this supplier'],
  body: [413, 'Content Too Large', 'the request body is over proxy.maxRequestBytes'],
  host: [400, 'Bad Request', 'exactly one Host header that names a host is wanted'],
  coding: [400, 'Bad Request', 'chunked is the only transfer coding that is known'],
  version: [400, 'Bad Request', 'HTTP/1.1, or HTTP/1.0 without Transfer-Encoding, is wanted'],
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof problems

export interface Problem {
  status: number
  message: string
  headers: string[]
  body: Buffer
}

function build(code: ProblemCode): Problem {
  const [status, message, detail, allow]: Row = problems[code]
  const body = Buffer.from(
    JSON.stringify({ type: 'about:blank', title: message, status, code, detail }),
  )
  const headers = ['Content-Type', 'application/problem+json', 'Content-Length', `${body.length}`]
  if (allow !== undefined) headers.push('Allow', allow)
  return { status, message, headers, body }
}

const built = new Map(
  (Object.keys(problems) as ProblemCode[]).map((code) => [code, build(code)] as const),
)

export function problem(code: ProblemCode): Problem {
  return built.get(code)!
}
