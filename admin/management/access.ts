/** What all management calls share: visibility of suppliers, and the author of a change. */
import type { FastifyRequest } from 'fastify'
import { canSee } from '../auth/roles.ts'
import type { Handler } from '../http/call.ts'
import { Problem, unknownSupplier } from '../http/problem.ts'
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

export const visible = ({ suppliers }: Access, { caller }: FastifyRequest) =>
  suppliers().filter(({ account }) => canSee(caller!, account))

/** The supplier of this id. A supplier of another account looks like one that does not exist. */
export function find(
  access: Access,
  request: FastifyRequest,
  id = (request.params as { id: string }).id,
): ListedSupplier {
  const supplier = visible(access, request).find((each) => each.id === id)
  if (supplier === undefined) throw unknownSupplier()
  return supplier
}

/** For what all accounts share: only account `*` may call it. */
export const ofAllAccounts =
  (handler: Handler): Handler =>
  async (request, reply) => {
    if (request.caller!.account === everyone) return handler(request, reply)
    throw new Problem(403, 'forbidden', 'Only account * may do this')
  }

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
