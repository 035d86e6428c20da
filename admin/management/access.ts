/** Visibility of suppliers, and the errors that all management calls share. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { canSee } from '../auth/roles.ts'
import { problem } from '../http/problem.ts'
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
  /** The suppliers of the configuration, as of the last reload. */
  suppliers: () => readonly ListedSupplier[]
  /** Called after a change on this node, so that it takes effect before the next poll. */
  changed: () => void
  /** Called when a win was voided. It must not wait. */
  onVoid?: ((decision: string) => void) | undefined
  now: () => number
}

/** Account that sees all suppliers, and id of a hold of all. */
export const everyone = '*'

/** A supplier of another account looks like one that does not exist. */
export const visible = ({ suppliers }: Access, { caller }: FastifyRequest) =>
  suppliers().filter(({ account }) => canSee(caller!, account))

export const find = (access: Access, request: FastifyRequest) =>
  visible(access, request).find(({ id }) => id === (request.params as { id: string }).id)

export const notFound = (reply: FastifyReply) =>
  problem(reply, 404, 'unknown_supplier', 'No such supplier')

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/** For what all accounts share: only account `*` may call it. */
export const ofAllAccounts =
  (handler: Handler): Handler =>
  async (request, reply) =>
    request.caller!.account === everyone
      ? handler(request, reply)
      : problem(reply, 403, 'forbidden', 'Only account * may do this')

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
