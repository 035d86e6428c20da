/** Refusals of the listener itself: RFC 9457 problem documents, one table. */
export const problems = {
  not_found: [404, 'Not Found', 'no such supplier, or no such path on this listener'],
  method: [405, 'Method Not Allowed', 'bids are POSTed'],
  caller: [403, 'Forbidden', 'this caller may not send bids to this supplier'],
  body: [413, 'Content Too Large', 'the request body is over proxy.maxRequestBytes'],
  host: [400, 'Bad Request', 'exactly one Host header that names a host is wanted'],
  coding: [400, 'Bad Request', 'chunked is the only transfer coding that is known'],
  version: [400, 'Bad Request', 'HTTP/1.1, or HTTP/1.0 without Transfer-Encoding, is wanted'],
} as const satisfies Record<string, readonly [number, string, string]>

export type ProblemCode = keyof typeof problems

export interface Problem {
  status: number
  message: string
  headers: string[]
  body: Buffer
}

function build(code: ProblemCode): Problem {
  const [status, message, detail] = problems[code]
  const body = Buffer.from(
    JSON.stringify({ type: 'about:blank', title: message, status, code, detail }),
  )
  const headers = ['Content-Type', 'application/problem+json', 'Content-Length', `${body.length}`]
  if (status === 405) headers.push('Allow', 'POST')
  return { status, message, headers, body }
}

const built = new Map(
  (Object.keys(problems) as ProblemCode[]).map((code) => [code, build(code)] as const),
)

export function problem(code: ProblemCode): Problem {
  return built.get(code)!
}
