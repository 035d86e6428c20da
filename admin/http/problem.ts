import type { FastifyReply } from 'fastify'
import * as z from 'zod'
import { problemType } from '../../opd/base/problem-type.ts'
import { type ProblemCode, problems } from './problems.ts'

const faultSchema = z.object({
  pointer: z.string().describe('JSON pointer into the body (RFC 6901), or the name of a parameter'),
  detail: z.string(),
})
/** One fault of a request. */
export type ProblemFault = z.infer<typeof faultSchema>

export const problemSchema = z
  .looseObject({
    type: z.string().regex(/^urn:bidweir:problem:[a-z_]+$/),
    title: z.string(),
    status: z.int().min(400).max(599),
    code: z.string(),
    errors: z.array(faultSchema).optional().describe('One entry for each fault.'),
  })
  .meta({
    id: 'Problem',
    description:
      'RFC 9457. `type` ends with `code`, which is stable and meant for programs; `title` is for people.',
  })

interface ProblemDetails {
  /** Instead of that of the code. */
  title?: string
  faults?: readonly ProblemFault[]
}

/** A handler throws it to refuse a request; the listener sends it as a problem document. */
export class Problem extends Error {
  override name = 'Problem'
  readonly code: ProblemCode
  readonly faults: readonly ProblemFault[]

  /** @param code a row of `problems` */
  constructor(code: ProblemCode, { title = problems[code][1], faults = [] }: ProblemDetails = {}) {
    super(title)
    this.code = code
    this.faults = faults
  }

  get status(): number {
    return problems[this.code][0]
  }
}

/** Too many calls of this kind wait already. The client should try again. */
export class BusyError extends Error {
  override name = 'BusyError'
}

/**
 * A query or a body with these faults.
 *
 * @param faults at least one; each names its place
 */
export const malformed = (faults: readonly ProblemFault[]) => new Problem('malformed', { faults })

/**
 * Sends an RFC 9457 problem document. `code` is stable: tests and metrics use it.
 *
 * @param status 400 to 599
 */
export function problem(
  reply: FastifyReply,
  status: number,
  code: string,
  title: string,
  errors: readonly ProblemFault[] = [],
): FastifyReply {
  const document = { type: problemType(code), title, status, code }
  // Sent as bytes: fastify adds a charset to text, which RFC 9457 does not define.
  return reply
    .code(status)
    .type('application/problem+json')
    .send(Buffer.from(JSON.stringify(errors.length > 0 ? { ...document, errors } : document)))
}
