import type { FastifyReply } from 'fastify'
import * as z from 'zod'

const faultSchema = z.object({
  pointer: z.string().describe('JSON pointer into the body (RFC 6901), or the name of a parameter'),
  detail: z.string(),
})
/** One fault of a request. */
export type ProblemFault = z.infer<typeof faultSchema>

export const problemSchema = z
  .looseObject({
    type: z.literal('about:blank'),
    title: z.string(),
    status: z.int().min(400).max(599),
    code: z.string(),
    errors: z.array(faultSchema).optional().describe('One entry for each fault.'),
  })
  .meta({
    id: 'Problem',
    description: 'RFC 9457. `code` is stable and meant for programs, `title` for people.',
  })

/** A handler throws it to refuse a request; the listener sends it as a problem document. */
export class Problem extends Error {
  override name = 'Problem'
  readonly status: number
  readonly code: string
  readonly faults: readonly ProblemFault[]

  constructor(status: number, code: string, title: string, faults: readonly ProblemFault[] = []) {
    super(title)
    this.status = status
    this.code = code
    this.faults = faults
  }
}

/** Too many calls of this kind wait already. The client should try again. */
export class BusyError extends Error {
  override name = 'BusyError'
}

/** A query or a body with these faults. */
export const malformed = (faults: readonly ProblemFault[]) =>
  new Problem(400, 'malformed', 'The request is not valid', faults)

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
