/** What calls of the API share: visibility of suppliers, and the author of a change. */
import type { FastifyRequest } from 'fastify'
import type { Handler } from '../http/call.ts'
import { Problem } from '../http/problem.ts'
import { canSee } from '../http/roles.ts'
import type { Author, Change } from '../store/audit.ts'
import type { Store } from '../store/index.ts'

export interface ListedSupplier {
  id: string
  name: string
  name_external: string
  account: string | null
}

/** The part of a supplier that decides who sees it. */
type Owned = Pick<ListedSupplier, 'id' | 'account'>

export interface Suppliers<S extends Owned = Owned> {
  /** The suppliers of the configuration, as of the last reload. */
  suppliers: () => readonly S[]
}

export interface Access extends Suppliers<ListedSupplier> {
  store: Store
  /** Called after a change on this node, so that it takes effect before the next poll. */
  changed: () => void
  now: () => number
}

/** Account that sees all suppliers, and id of a hold of all. */
export const everyone = '*'

/**
 * The suppliers that the caller may see.
 *
 * @param suppliers of the configuration and of the API
 * @param request whose caller is known: a call without a token has none
 */
export const visible = <S extends Owned>(
  { suppliers }: Suppliers<S>,
  { caller }: FastifyRequest,
): S[] => suppliers().filter(({ account }) => canSee(caller!, account))

/**
 * The supplier of this id.
 *
 * @param suppliers of the configuration and of the API
 * @param request whose caller is known
 * @param id of the path, unless it is given
 * @throws Problem `unknown_supplier` if there is none, or it is of another account
 */
export function find<S extends Owned>(
  suppliers: Suppliers<S>,
  request: FastifyRequest,
  id = (request.params as { id: string }).id,
): S {
  const supplier = visible(suppliers, request).find((supplier) => supplier.id === id)
  if (supplier === undefined) throw new Problem('unknown_supplier')
  return supplier
}

/** For what all accounts share: only account `*` may call it. */
export const ofAllAccounts =
  (handler: Handler): Handler =>
  async (request, reply) => {
    if (request.caller!.account === everyone) return handler(request, reply)
    throw new Problem('forbidden', { title: 'Only account * may do this' })
  }

/**
 * Who changes something, for the audit trail.
 *
 * @param request whose caller is known
 */
export const authorOf = ({ caller, id }: FastifyRequest): Author => ({
  who: caller!.subject,
  account: caller!.account,
  requestId: String(id),
})

export const changeOf = (request: FastifyRequest, supplier: string, action: string): Change => ({
  ...authorOf(request),
  supplier,
  action,
})
