/** Who may see what, and the refusals that every management call shares. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { canSee } from '../access.ts'
import { type ProblemFault, problem } from '../http/problem.ts'
import type { Store } from '../store/index.ts'
import type { AuditEntry } from '../store/suppliers.ts'

export interface ListedSupplier {
  id: string
  name: string
  name_external: string
  account: string | null
}

export interface Access {
  store: Store
  /** The file's suppliers, as they stand after the last reload. */
  suppliers: () => readonly ListedSupplier[]
  /** Called after a change of this node's own: its effect need not wait for the next look. */
  changed: () => void
  now: () => number
}

/** Another account's supplier is as absent as one that is not there. */
export const visible = ({ suppliers }: Access, { caller }: FastifyRequest) =>
  suppliers().filter(({ account }) => canSee(caller!, account))

export const find = (access: Access, request: FastifyRequest) =>
  visible(access, request).find(({ id }) => id === (request.params as { id: string }).id)

export const notFound = (reply: FastifyReply) =>
  problem(reply, 404, 'unknown_supplier', 'No such supplier')

export const malformed = (reply: FastifyReply, faults: ProblemFault[]) =>
  problem(reply, 400, 'malformed', 'The call is not what this path takes', faults)

export const entryOf = (
  { caller, id }: FastifyRequest,
  supplier: string,
  action: string,
): Omit<AuditEntry, 'before' | 'after'> => ({
  who: caller!.subject,
  account: caller!.account,
  supplier,
  action,
  requestId: String(id),
})
