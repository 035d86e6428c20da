/**
 * `/api/svc/models/`: freezes the models of all nodes, rolls them back, or makes them forget a supplier (CONTRACT 8).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { modes } from '../../opd/pricing/arms.ts'
import { type SnapshotCatalog, SnapshotError } from '../../opd/state/snapshot-catalog.ts'
import { jsonAnswer, type Route } from '../http/call.ts'
import { parsed } from '../http/json-body.ts'
import { malformed, problem } from '../http/problem.ts'
import { forgetSupplier, readModelControl, rollBack, setFrozen } from '../store/model-control.ts'
import { type Access, entryOf, everyone, notFound, ofAllAccounts, visible } from './access.ts'
import {
  emptySchema,
  type ModelsResource,
  modelsSchema,
  resetSchema,
  rollbackSchema,
} from './schema.ts'

export interface ModelAccess extends Access {
  /** Snapshots of the node that handles the request. */
  snapshots: SnapshotCatalog
  /** Resolves when this node has applied the state of the store. */
  followed: () => Promise<void>
}

const example: ModelsResource = {
  frozen: false,
  models: [
    { mode: 'revenue', epoch: 1, rolled_back_at: '2026-01-31T12:00:00.000Z' },
    { mode: 'margin', epoch: 0, rolled_back_at: null },
  ],
  resets: { acme: 1 },
  snapshots: [
    {
      id: 'revenue-12',
      mode: 'revenue',
      at: '2026-01-31T11:55:00.000Z',
      bytes: 65536,
      newest: true,
    },
  ],
}

/** The common part of the four commands. */
const command = (
  name: string,
  id: string,
  summary: string,
  body: Route['body'],
  more: readonly number[] = [],
) =>
  ({
    method: 'POST',
    path: `/api/svc/models/${name}/`,
    id,
    tag: 'management',
    summary,
    description: 'Takes effect on every node within two seconds, and persists.',
    role: 'operator',
    ...(body === undefined ? {} : { body }),
    answers: { 200: jsonAnswer('The state after the change', modelsSchema, example) },
    problems: [400, 401, 403, ...more, 413, 415, 503],
  }) as const

export function modelRoutes(access: ModelAccess): Route[] {
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

  /** A missing body counts as an empty object. */
  const bodyOf = ({ body }: FastifyRequest) => body ?? Buffer.from('{}')

  // All accounts share one model.
  const freezing = (frozen: boolean) =>
    ofAllAccounts(async (request, reply) => {
      const body = parsed(bodyOf(request), emptySchema)
      if ('faults' in body) return malformed(reply, body.faults)
      const entry = entryOf(request, everyone, frozen ? 'freeze' : 'unfreeze')
      await setFrozen(store, now(), frozen, entry)
      return done(request, reply)
    })

  return [
    {
      method: 'GET',
      path: '/api/svc/models/',
      id: 'readModels',
      tag: 'management',
      summary: 'The models: frozen or not, rollbacks, forgotten suppliers, snapshots of this node',
      role: 'viewer',
      answers: { 200: jsonAnswer('The present state', modelsSchema, example) },
      problems: [401, 403, 503],
      handler: async (request, reply) => reply.send(await state(request)),
    },
    {
      ...command(
        'freeze',
        'freezeModels',
        'Freezes the models: they set prices and do not learn',
        undefined,
      ),
      handler: freezing(true),
    },
    {
      ...command('unfreeze', 'unfreezeModels', 'Lets the models learn again', undefined),
      handler: freezing(false),
    },
    {
      ...command(
        'rollback',
        'rollBackModels',
        'Rolls back to a snapshot of the node that handles the request',
        { schema: rollbackSchema, example: { id: 'revenue-12' }, optional: true },
        [404, 409],
      ),
      handler: ofAllAccounts(async (request, reply) => {
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
    },
    {
      ...command(
        'reset',
        'resetModels',
        'Makes the models forget one supplier',
        { schema: resetSchema, example: { supplier: 'acme' } },
        [404],
      ),
      async handler(request, reply) {
        const body = parsed(request.body, resetSchema)
        if ('faults' in body) return malformed(reply, body.faults)
        const { supplier } = body.value
        if (!visible(access, request).some(({ id }) => id === supplier)) return notFound(reply)
        await forgetSupplier(store, now(), entryOf(request, supplier, 'reset'))
        return done(request, reply)
      },
    },
  ]
}
