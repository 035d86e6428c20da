import type { FastifyReply } from 'fastify'

/** One fault of a request: `pointer` is a JSON pointer into the body, or the parameter's name. */
export interface ProblemFault {
  pointer: string
  detail: string
}

/** Answers with an RFC 9457 problem document. `code` is stable: tests and metrics use it. */
export function problem(
  reply: FastifyReply,
  status: number,
  code: string,
  title: string,
  errors: readonly ProblemFault[] = [],
): FastifyReply {
  return reply
    .code(status)
    .type('application/problem+json')
    .send(
      JSON.stringify({
        type: 'about:blank',
        title,
        status,
        code,
        ...(errors.length > 0 ? { errors } : {}),
      }),
    )
}
