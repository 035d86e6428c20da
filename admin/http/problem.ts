import type { FastifyReply } from 'fastify'

/** One fault of a request: `pointer` is a JSON pointer into the body, or the parameter's name. */
export interface ProblemFault {
  pointer: string
  detail: string
}

/** Sends an RFC 9457 problem document. `code` is stable: tests and metrics use it. */
export function problem(
  reply: FastifyReply,
  status: number,
  code: string,
  title: string,
  errors: readonly ProblemFault[] = [],
): FastifyReply {
  const document = { type: 'about:blank', title, status, code }
  // Sent as bytes: fastify adds a charset to text, which RFC 9457 does not define.
  return reply
    .code(status)
    .type('application/problem+json')
    .send(Buffer.from(JSON.stringify(errors.length > 0 ? { ...document, errors } : document)))
}
