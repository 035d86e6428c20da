/**
 * `/api/svc/models/`: freezes the models of all nodes, rolls them back, or makes them forget a supplier (CONTRACT 8).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { modes } from '../../opd/pricing/arms.ts'
import { type SnapshotCatalog, SnapshotError } from '../../opd/state/snapshot-catalog.ts'
import { problem } from '../http/problem.ts'
import { forgetSupplier, readModelControl, rollBack, setFrozen } from '../store/model-control.ts'
import { type Access, entryOf, malformed, notFound, visible } from './access.ts'
import { parsed } from './body.ts'
import { emptySchema, type ModelsResource, resetSchema, rollbackSchema } from './schema.ts'

const everyone = '*'

export interface ModelAccess extends Access {
  /** Snapshots of the node that handles the request. */
  snapshots: SnapshotCatalog
  /** Resolves when this node has applied the state of the store. */
  followed: () => Promise<void>
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

export function modelCalls(access: ModelAccess) {
  const { store, snapshots, followed, now } = access

  async function state(request: FastifyRequest): Promise<ModelsResource> {
    const { frozen, epochs, rolledBackAt, resets } = await readModelControl(store.db)
    const seen = new Set(visible(access, request).map(({ id }) => id))
    return {
      frozen,
      models: modes.map((mode) => {
        const at = rolledBackAt[mode]
        const rolled_back_at = at === null ? null : new Date(at).toISOString()
        return { mode, epoch: epochs[mode], rolled_back_at }
      }),
      resets: Object.fromEntries(Object.entries(resets).filter(([id]) => seen.has(id))),
      snapshots: await snapshots.list(),
    }
  }

  async function done(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    await followed()
    return reply.send(await state(request))
  }

  /** All accounts share one model, so only account `*` may change it. */
  const ofAllAccounts =
    (handler: Handler): Handler =>
    async (request, reply) =>
      request.caller!.account === everyone
        ? handler(request, reply)
        : problem(reply, 403, 'forbidden', 'Only account * may do this')

  /** A missing body counts as an empty object. */
  const bodyOf = ({ body }: FastifyRequest) => body ?? Buffer.from('{}')

  const freezing = (frozen: boolean): Handler =>
    ofAllAccounts(async (request, reply) => {
      const body = parsed(bodyOf(request), emptySchema)
      if ('faults' in body) return malformed(reply, body.faults)
      const entry = entryOf(request, everyone, frozen ? 'freeze' : 'unfreeze')
      await setFrozen(store, now(), frozen, entry)
      return done(request, reply)
    })

  return {
    async list(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
      return reply.send(await state(request))
    },
    freeze: freezing(true),
    unfreeze: freezing(false),
    rollback: ofAllAccounts(async (request, reply) => {
      const body = parsed(bodyOf(request), rollbackSchema)
      if ('faults' in body) return malformed(reply, body.faults)
      try {
        const loaded = await snapshots.load(body.value.id)
        await rollBack(store, now(), loaded, entryOf(request, everyone, 'rollback'))
      } catch (error) {
        if (!(error instanceof SnapshotError)) throw error
        const { code, message } = error
        return code === 'absent'
          ? problem(reply, 404, 'unknown_snapshot', message)
          : problem(reply, 409, 'damaged_snapshot', message)
      }
      return done(request, reply)
    }),
    async reset(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
      const body = parsed(request.body, resetSchema)
      if ('faults' in body) return malformed(reply, body.faults)
      const { supplier } = body.value
      if (!visible(access, request).some(({ id }) => id === supplier)) return notFound(reply)
      await forgetSupplier(store, now(), entryOf(request, supplier, 'reset'))
      return done(request, reply)
    },
  }
}
